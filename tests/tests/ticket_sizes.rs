//! How large tickets are: there are as many as objects.

use repo_tests::binaries::Binaries;
use repo_tests::compare::is_ticket_file;
use repo_tests::process::run;
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::fs;

/// The bar, in bytes, of a ticket for an object of ten symbols.
const MOST: u64 = 1200;

/// With all that is in a ticket: ten functions of its own and of others, the seal, the path of the repository, and how it was
/// made.
#[test]
fn of_an_object_of_ten_symbols() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    scratch.write(
        "project/source/stack.c",
        "#include <stdlib.h>\n#include <string.h>\n\
         static __attribute__((noinline)) int hash(int n) { return n * n + 1; }\n\
         int start(int n) { return hash(n); }\n\
         int push(int n) { return n * 3; }\n\
         int pop(int n) { return n * 4; }\n\
         int run(int n) { return start(n) + push(n); }\n\
         int stop(int n) { return pop(n) - 1; }\n\
         char *copy(const char *p) { return strdup(p); }\n\
         void clear(char *p) { free(p); }\n",
    );
    let mut command = scratch.command(Binaries::get().path("repo-cc"));
    command.arg(gcc.file_name().expect("a name")).args([
        "-DHAVE_CONFIG_H",
        "-I.",
        "-I../include",
        "-Wall",
        "-Wextra",
        "-g",
        "-O2",
        "-MD",
        "-MP",
        "-c",
        "stack.c",
        "-o",
        "stack.o",
    ]);
    command.current_dir(scratch.join("project/source"));
    run(&mut command).ok();
    let ticket = scratch.join("project/source/stack.o");
    assert!(is_ticket_file(&ticket));
    let bytes = fs::read(&ticket).unwrap();
    let parsed = tickets::Ticket::parse(&bytes).unwrap().unwrap();
    let recipe = tickets::recipe::Recipe::decode(&parsed.made, &parsed.repository);
    let recipe = recipe.expect("it says how it was made");
    assert_eq!(recipe.command.len(), 14);
    let symbols = goblin::elf::Elf::parse(&bytes).unwrap();
    let named = symbols.syms.iter().filter(|symbol| symbol.st_name > 1);
    // Those of the object, and the one that other linkers miss.
    let count = named.count();
    assert_eq!(count, 10 + 1);
    let size = bytes.len() as u64;
    assert!(
        size <= MOST,
        "{size} bytes, of which {} say how it was made",
        parsed.made.len()
    );
}
