//! How large tickets are: there are as many as objects.

use repo_tests::binaries::Binaries;
use repo_tests::compare::is_ticket_file;
use repo_tests::process::run;
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::fs;

/// The bar, in bytes, of a ticket for an object of ten symbols.
const MOST: u64 = 1200;

/// With all that is in a ticket: symbols, seal, the path of the repository, and how it was made, by a command as CMake's.
#[test]
fn of_an_object_of_ten_symbols() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    let directory = "home/somebody/projects/a-project/build/source";
    scratch.write(
        format!("{directory}/module_name.c"),
        "#include <stdlib.h>\n#include <string.h>\n\
         int module_counter; const char *module_title = \"title\"; static int module_state[4];\n\
         static __attribute__((noinline)) int module_inner(int n) { return n + module_state[n & 3]; }\n\
         int module_open(int n) { module_state[n & 3] = n; return module_inner(n); }\n\
         void module_close(char *p) { free(p); }\n\
         char *module_copy(const char *p) { return strdup(p); }\n\
         int module_run(int n) { return module_open(n) + module_counter; }\n",
    );
    let mut command = scratch.command(Binaries::get().path("repo-cc"));
    command.arg(&gcc).args([
        "-DHAVE_CONFIG_H",
        "-DNDEBUG",
        "-I/home/somebody/projects/a-project/include",
        "-I.",
        "-Wall",
        "-Wextra",
        "-O2",
        "-g",
        "-fPIC",
        "-std=gnu11",
        "-MD",
        "-MT",
        "CMakeFiles/module.dir/source/module_name.c.o",
        "-MF",
        "CMakeFiles/module.dir/source/module_name.c.o.d",
        "-o",
        "module_name.c.o",
        "-c",
        "module_name.c",
    ]);
    command.current_dir(scratch.join(directory));
    fs::create_dir_all(scratch.join(directory).join("CMakeFiles/module.dir/source")).unwrap();
    run(&mut command).ok();
    let ticket = scratch.join(directory).join("module_name.c.o");
    assert!(is_ticket_file(&ticket));
    let bytes = fs::read(&ticket).unwrap();
    let parsed = tickets::Ticket::parse(&bytes).unwrap().unwrap();
    let recipe = tickets::recipe::Recipe::decode(&parsed.made, &parsed.repository);
    let recipe = recipe.expect("it says how it was made");
    assert_eq!(recipe.command.len(), 20);
    let symbols = goblin::elf::Elf::parse(&bytes).unwrap();
    let named = symbols.syms.iter().filter(|symbol| symbol.st_name > 1);
    // Those of the object, and the three by which other linkers are stopped.
    let count = named.count();
    assert!((10..=13).contains(&count), "{count}");
    let size = bytes.len() as u64;
    assert!(
        size <= MOST,
        "{size} bytes, of which {} say how it was made",
        parsed.made.len()
    );
}
