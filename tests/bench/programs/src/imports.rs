//! How fast objects become compilations, against the fastest thing that one
//! could do with their bytes: to hash them.

use crate::subjects::Subject;
use anyhow::{Context as _, Result, ensure};
use bumpalo::Bump;
use linker::import::{import_object, prepare};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;
use store::program::Repository;

/// What was measured for the objects of one program. Rates are in MB/s of
/// object bytes, medians, one thread.
pub struct Imports {
    name: String,
    objects: usize,
    bytes: u64,
    blake3: f64,
    prepare: f64,
    import: f64,
    again: f64,
    repository: u64,
}

/// Imports the objects that [`crate::links::measure`] left for `subject`,
/// `runs` times, each time into a new repository.
///
/// # Errors
/// If there are none, or one cannot be imported.
pub fn measure(subject: &Subject, directory: &Path, runs: usize) -> Result<Imports> {
    let directory = directory.join(subject.directory_name());
    let mut objects: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for path in repo_tests::sources::files(&directory.join("objects"), ".o")? {
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        objects.push((path, bytes));
    }
    let bytes: u64 = objects.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    let [mut hashing, mut preparing, mut importing, mut again] = [const { Vec::new() }; 4];
    let mut size = 0;
    for round in 0..runs {
        let start = Instant::now();
        for (_, bytes) in &objects {
            std::hint::black_box(blake3::hash(bytes));
        }
        hashing.push(start.elapsed().as_secs_f64());

        let start = Instant::now();
        for (path, bytes) in &objects {
            let arena = Bump::new();
            std::hint::black_box(prepare(path, bytes, &arena)?.0.digest);
        }
        preparing.push(start.elapsed().as_secs_f64());

        let file = directory.join(format!("import-{round}.repo"));
        let repository = Repository::open_or_create(&file)?;
        for times in [&mut importing, &mut again] {
            let start = Instant::now();
            for (path, bytes) in &objects {
                import_object(&repository, path, bytes, None)?;
            }
            times.push(start.elapsed().as_secs_f64());
        }
        size = fs::metadata(&file)?.len();
        drop(repository);
        fs::remove_file(&file)?;
    }
    ensure!(bytes > 0, "no objects");
    let rate = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        bytes as f64 / 1e6 / times[times.len() / 2]
    };
    Ok(Imports {
        name: subject.name.clone(),
        objects: objects.len(),
        bytes,
        blake3: rate(hashing),
        prepare: rate(preparing),
        import: rate(importing),
        again: rate(again),
        repository: size,
    })
}

/// The table.
pub fn print(all: &[Imports]) {
    println!("Imports: MB/s of object bytes, one thread, one transaction an object.\n");
    println!(
        "{:<18} {:>7} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7}",
        "", "objects", "MB", "BLAKE3", "split", "import", "again", "repo MB", "ratio"
    );
    for one in all {
        println!(
            "{:<18} {:>7} {:>8.2} {:>8.0} {:>8.0} {:>8.0} {:>8.0} {:>8.2} {:>7.2}",
            one.name,
            one.objects,
            one.bytes as f64 / 1e6,
            one.blake3,
            one.prepare,
            one.import,
            one.again,
            one.repository as f64 / 1e6,
            one.repository as f64 / one.bytes as f64
        );
    }
}

impl Imports {
    /// The same for a program.
    pub fn to_json(&self) -> Value {
        json!({
            "program": self.name,
            "objects": self.objects,
            "object_bytes": self.bytes,
            "repository_bytes": self.repository,
            "blake3_mb_per_s": self.blake3,
            "split_mb_per_s": self.prepare,
            "import_mb_per_s": self.import,
            "import_again_mb_per_s": self.again,
        })
    }
}
