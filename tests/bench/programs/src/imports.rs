//! How fast objects become compilations, against the fastest thing that one
//! could do with their bytes: to hash them.

use crate::contention::thread_time;
use crate::subjects::Subject;
use anyhow::{Context as _, Result, ensure};
use bumpalo::Bump;
use linker::repository::import::{import_object, prepare};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use store::program::Repository;
use tickets::archive::Archive;

/// What was measured for the objects of one program. Rates are in MB of object bytes a second of
/// processor time, medians, one thread.
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
    measure_objects(&subject.name, &objects, &directory, runs)
}

/// The same with objects of somebody else: `paths` are objects, archives of such, and directories in which to look for either.
/// They are copied below `directory`, where [`crate::contention::measure`] finds them.
///
/// # Errors
/// Likewise.
pub fn measure_paths(paths: &[PathBuf], directory: &Path, runs: usize) -> Result<Imports> {
    let mut files = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => objects_below(path, &mut files)?,
            false => files.push(path.clone()),
        }
    }
    let directory = directory.join("given");
    fs::create_dir_all(directory.join("objects"))?;
    let mut objects = Vec::new();
    let mut take = |bytes: &[u8]| -> Result<()> {
        let arena = Bump::new();
        let path = directory.join(format!("objects/{:06}.o", objects.len()));
        match prepare(&path, bytes, &arena) {
            Ok(_) => {
                fs::write(&path, bytes)?;
                objects.push((path, bytes.to_vec()));
                Ok(())
            }
            Err(why) if why.is_not_splittable() => Ok(()),
            Err(why) => Err(why.into()),
        }
    };
    for path in files {
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        if !Archive::is_archive(&bytes) {
            take(&bytes)?;
            continue;
        }
        let archive = Archive::parse(&bytes)?;
        for member in archive.members() {
            take(archive.inline_data(&member?).unwrap_or_default())?;
        }
    }
    measure_objects("given", &objects, &directory, runs)
}

/// Adds the objects and archives below a directory, in order.
fn objects_below(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = (directory.read_dir()).with_context(|| directory.display().to_string())?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        let is_ours = |ending| matches!(ending, "o" | "a" | "rlib");
        if path.is_dir() && !path.is_symlink() {
            objects_below(&path, files)?;
        } else if path.is_file()
            && path
                .extension()
                .and_then(OsStr::to_str)
                .is_some_and(is_ours)
        {
            files.push(path);
        }
    }
    Ok(())
}

fn measure_objects(
    name: &str,
    objects: &[(PathBuf, Vec<u8>)],
    directory: &Path,
    runs: usize,
) -> Result<Imports> {
    let bytes: u64 = objects.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    let [mut hashing, mut preparing, mut importing, mut again] = [const { Vec::new() }; 4];
    let mut size = 0;
    for round in 0..runs {
        let start = thread_seconds();
        for (_, bytes) in objects {
            std::hint::black_box(blake3::hash(bytes));
        }
        hashing.push(thread_seconds() - start);

        let start = thread_seconds();
        for (path, bytes) in objects {
            let arena = Bump::new();
            std::hint::black_box(prepare(path, bytes, &arena)?.0.digest);
        }
        preparing.push(thread_seconds() - start);

        let file = directory.join(format!("import-{round}.repo"));
        let repository = Repository::open_or_create(&file)?;
        for times in [&mut importing, &mut again] {
            let start = thread_seconds();
            for (path, bytes) in objects {
                import_object(&repository, path, bytes, None)?;
            }
            times.push(thread_seconds() - start);
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
        name: name.to_owned(),
        objects: objects.len(),
        bytes,
        blake3: rate(hashing),
        prepare: rate(preparing),
        import: rate(importing),
        again: rate(again),
        repository: size,
    })
}

/// Processor time of this thread: what an import takes of it, whatever else the machine does.
fn thread_seconds() -> f64 {
    thread_time() as f64 / 1e9
}

/// The table.
pub fn print(all: &[Imports]) {
    println!("Imports: MB of object bytes a second of processor time, one thread.\n");
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
