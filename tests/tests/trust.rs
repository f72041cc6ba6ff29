//! Whose repository is used: one's own, root's, or one that was named by hand. What lies
//! above an output or is named by a ticket may be a trap that another user of the machine
//! has set.
//!
//! Files of other users can only be made by root; elsewhere those tests are skipped.

use repo_tests::binaries::Binaries;
use repo_tests::compare::is_ticket_file;
use repo_tests::process::{Run, run};
use repo_tests::scratch::Scratch;
use repo_tests::{require, tools};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Users that no machine has.
const SOMEBODY: u32 = 54_321;
const ME: u32 = 54_322;

const SOURCE: &str = "int a(int x) { return x + 1; }\nint main(void) { return a(-1); }\n";

/// `repo-cc OPTIONS gcc -c a.c -o OUTPUT` without a setting for the repository.
fn compile(scratch: &Scratch, gcc: &Path, options: &[&str], output: &str) -> Command {
    let source = scratch.write("a.c", SOURCE);
    let mut command = scratch.command(Binaries::get().path("repo-cc"));
    command.env_remove("REPO_FILE").args(options).arg(gcc);
    command.arg("-c").arg(source).arg("-o").arg(output);
    command
}

/// A link of `ticket` to `out`, without a setting for the repository.
fn link(scratch: &Scratch, ticket: &str) -> Command {
    let mut command = scratch.command(Binaries::get().path("repo-ld"));
    command.env_remove("REPO_FILE");
    command.args(["-e", "main", "-o", "out", ticket]);
    command
}

/// `project/program.repo`, made by hand as one's own.
fn project(scratch: &Scratch, gcc: &Path) -> PathBuf {
    fs::create_dir_all(scratch.join("project/build")).expect("directories");
    let path = scratch.join("project/program.repo");
    let option = path.to_string_lossy();
    run(&mut compile(
        scratch,
        gcc,
        &["--repo", &option],
        "project/first.o",
    ))
    .ok();
    assert!(is_ticket_file(scratch.join("project/first.o")));
    path
}

/// The user's own repository, where it is by default.
fn users(scratch: &Scratch) -> PathBuf {
    scratch.join("state/program-repository/program.repo")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("the mode can be set");
}

/// Whether this is root, who can make files of others. If not, the test is on record as
/// skipped.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        tools::skip("root's rights");
    }
    is_root
}

/// Asserts that a compile left the repository alone, said so in one line with `reason`,
/// and used the user's own.
#[track_caller]
fn ignored(scratch: &Scratch, done: Run, repository: &Path, before: &[u8], reason: &str) {
    let done = done.ok();
    let said = done.errors();
    let named = format!("repo-cc: warning: {}: ", repository.display());
    assert!(said.starts_with(&named), "{}", done.report());
    assert!(said.contains(reason), "{reason}: {}", done.report());
    assert!(
        said.contains("--repo or $REPO_FILE"),
        "what to do: {}",
        done.report()
    );
    assert_eq!(said.lines().count(), 1, "{}", done.report());
    assert!(
        fs::read(repository).expect("it is there") == before,
        "it was written"
    );
    assert!(users(scratch).exists(), "{}", done.report());
    let ticket = scratch.join("project/build/a.o");
    assert!(is_ticket_file(&ticket), "{}", done.report());
    // And the ticket names the other one: it links without the ignored repository.
    fs::rename(repository, scratch.join("away")).expect("moved");
    run(&mut link(scratch, "project/build/a.o")).ok();
    fs::rename(scratch.join("away"), repository).expect("moved");
    fs::remove_file(&ticket).expect("removed");
}

#[test]
fn a_repository_of_somebody_else_is_not_found() {
    let [gcc] = require!("gcc");
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let repository = project(&scratch, &gcc);
    chown(&repository, Some(SOMEBODY), Some(SOMEBODY)).expect("given away");
    let before = fs::read(&repository).expect("read");
    let found = run(&mut compile(&scratch, &gcc, &[], "project/build/a.o"));
    let reason = format!("it belongs to user {SOMEBODY}");
    ignored(&scratch, found, &repository, &before, &reason);
    // A directory of somebody else, who can put another file there.
    chown(&repository, Some(0), Some(0)).expect("taken back");
    chown(scratch.join("project"), Some(SOMEBODY), None).expect("given away");
    let found = run(&mut compile(&scratch, &gcc, &[], "project/build/a.o"));
    ignored(&scratch, found, &repository, &before, &reason);
}

#[test]
fn a_repository_that_others_may_write_is_not_found() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    let repository = project(&scratch, &gcc);
    let before = fs::read(&repository).expect("read");
    let directory = scratch.join("project");
    for (path, bits) in [
        (&repository, 0o602),
        (&repository, 0o666),
        (&directory, 0o777),
        (&directory, 0o757),
    ] {
        let old = mode(path);
        set_mode(path, bits);
        let found = run(&mut compile(&scratch, &gcc, &[], "project/build/a.o"));
        let reason = format!("others may write it (mode {bits:04o})");
        ignored(&scratch, found, &repository, &before, &reason);
        set_mode(path, old);
    }
    // In a sticky directory, such as /tmp, nobody else can put another file in its place.
    set_mode(&directory, 0o1777);
    let found = run(&mut compile(&scratch, &gcc, &[], "project/build/a.o")).ok();
    assert_eq!(found.errors(), "");
    fs::remove_file(users(&scratch)).expect("made before");
    run(&mut link(&scratch, "project/build/a.o")).ok();
}

#[test]
fn what_is_named_by_hand_is_used_whoever_owns_it() {
    let [gcc] = require!("gcc");
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let repository = project(&scratch, &gcc);
    chown(&repository, Some(SOMEBODY), Some(SOMEBODY)).expect("given away");
    set_mode(&repository, 0o660);
    let option = repository.to_string_lossy();
    for by_hand in [true, false] {
        let mut command = match by_hand {
            true => compile(&scratch, &gcc, &["--repo", &option], "project/build/a.o"),
            false => compile(&scratch, &gcc, &[], "project/build/a.o"),
        };
        if !by_hand {
            command.env("REPO_FILE", &repository);
        }
        let done = run(&mut command).ok();
        assert_eq!(done.errors(), "", "{}", done.report());
        assert!(is_ticket_file(scratch.join("project/build/a.o")));
        // The ticket names it; that alone is not by hand.
        let refused = run(&mut link(&scratch, "project/build/a.o")).code(1);
        let said = refused.errors();
        assert!(
            said.contains("a.o: ")
                && said.contains(&*option)
                && said.contains(&format!("it belongs to user {SOMEBODY}"))
                && said.contains("--repo or $REPO_FILE"),
            "{}",
            refused.report()
        );
        assert!(!scratch.join("out").exists());
        let mut command = link(&scratch, "project/build/a.o");
        match by_hand {
            true => command.args(["--repo", &option]),
            false => command.env("REPO_FILE", &repository),
        };
        run(&mut command).ok();
        fs::remove_file(scratch.join("out")).expect("linked");
    }
    assert!(!users(&scratch).exists());
}

#[test]
fn the_other_programs_do_not_trust_it_either() {
    let [gcc] = require!("gcc");
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let repository = project(&scratch, &gcc);
    chown(&repository, Some(SOMEBODY), Some(SOMEBODY)).expect("given away");
    let before = fs::read(&repository).expect("read");
    // To repo-gc a repository that is not used is one that is not there: it has nothing to do.
    for (name, arguments, code) in [
        ("repo-gc", &["--grace", "0"][..], 0),
        ("repo-gc", &["--dry-run"][..], 0),
        ("repo-dump", &["tickets"][..], 2),
        ("repo-dump", &["first.o"][..], 2),
    ] {
        let mut command = scratch.command(Binaries::get().path(name));
        command.env_remove("REPO_FILE").args(arguments);
        let done = run(command.current_dir(scratch.join("project"))).code(code);
        let said = done.errors();
        assert!(
            said.contains(&format!("it belongs to user {SOMEBODY}"))
                && said.contains("--repo or $REPO_FILE"),
            "{}",
            done.report()
        );
    }
    assert!(fs::read(&repository).expect("read") == before);
}

#[test]
fn who_calls_sudo_is_trusted_by_root_as_with_git() {
    let [gcc] = require!("gcc");
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let repository = project(&scratch, &gcc);
    for path in [&repository, &scratch.join("project")] {
        chown(path, Some(SOMEBODY), Some(SOMEBODY)).expect("given away");
    }
    let mut install = link(&scratch, "project/first.o");
    run(install.env("SUDO_UID", SOMEBODY.to_string())).ok();
    let mut other = link(&scratch, "project/first.o");
    run(other.env("SUDO_UID", ME.to_string())).code(1);
}

#[test]
fn a_user_trusts_root_and_nobody_else() {
    let [gcc] = require!("gcc");
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let repository = project(&scratch, &gcc);
    // Copies: the user need not be able to enter the build's directory.
    let program = scratch.join("repo-ld");
    // By another process: a child of another test's that begins just now would have a copy's descriptor, and what
    // somebody may write to cannot be run (ETXTBSY).
    let original = Binaries::get().path("repo-ld");
    run(scratch.command("cp").arg(original).arg(&program)).ok();
    set_mode(scratch.path(), 0o755);
    fs::create_dir(scratch.join("mine")).expect("a directory");
    chown(scratch.join("mine"), Some(ME), Some(ME)).expect("given");
    let link = || {
        let mut command = scratch.command("setpriv");
        command.env_remove("REPO_FILE");
        command
            .args([&format!("--reuid={ME}"), &format!("--regid={ME}")])
            .arg("--clear-groups")
            .arg(&program)
            .args(["-e", "main", "-o", "mine/out", "project/first.o"]);
        run(&mut command)
    };
    set_mode(&repository, 0o644);
    link().ok();
    // Of somebody else whose files may not even be read: it is told apart from one's own.
    chown(&repository, Some(SOMEBODY), Some(SOMEBODY)).expect("given away");
    for bits in [0o644, 0o600] {
        set_mode(&repository, bits);
        let refused = link().code(1);
        assert!(
            refused
                .errors()
                .contains(&format!("it belongs to user {SOMEBODY}")),
            "{}",
            refused.report()
        );
    }
}

#[test]
fn the_users_own_directory_is_for_the_user_alone() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    run(&mut compile(&scratch, &gcc, &[], "a.o")).ok();
    assert_eq!(mode(&users(&scratch)), 0o600);
    assert_eq!(mode(&scratch.join("state/program-repository")), 0o700);
    // Without the variable: where the XDG specification has it.
    let mut command = compile(&scratch, &gcc, &[], "a.o");
    command.env_remove("XDG_STATE_HOME");
    command.env("HOME", scratch.join("home"));
    run(&mut command).ok();
    let directory = scratch.join("home/.local/state/program-repository");
    assert_eq!(mode(&directory), 0o700);
    assert!(directory.join("program.repo").is_file());
    assert!(
        !scratch
            .join("cache/program-repository/program.repo")
            .exists()
    );
}

/// Asserts that a compile left an object, and said in one line what to do.
#[track_caller]
fn object_stays(scratch: &Scratch, done: Run, words: &[&str]) {
    let done = done.ok();
    let said = done.errors();
    assert_eq!(said.lines().count(), 1, "{}", done.report());
    for word in words {
        assert!(said.contains(word), "{word}: {}", done.report());
    }
    assert!(!is_ticket_file(scratch.join("a.o")), "{}", done.report());
}

#[test]
fn messages_say_what_to_do() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    let found = scratch.write("program.repo", "a file of somebody's project");
    let done = run(&mut compile(&scratch, &gcc, &[], "a.o"));
    let named = found.to_string_lossy();
    object_stays(
        &scratch,
        done,
        &[&named, "not a repository", "--repo or $REPO_FILE"],
    );
    for name in ["repo-dump", "repo-gc"] {
        let mut command = scratch.command(Binaries::get().path(name));
        let done = run(command.env_remove("REPO_FILE")).code(1);
        assert!(
            done.errors().contains("not a repository")
                && done.errors().contains("--repo or $REPO_FILE"),
            "{}",
            done.report()
        );
    }
    // A variable that leads nowhere: nothing is made where a mistyped path leads.
    let dangling = scratch.join("no/such/program.repo");
    let mut command = compile(&scratch, &gcc, &[], "a.o");
    let done = run(command.env("REPO_FILE", &dangling));
    let directory = scratch.join("no/such").to_string_lossy().into_owned();
    let advice = format!("mkdir -p {directory}");
    object_stays(&scratch, done, &[&directory, &advice, "$REPO_FILE"]);
    assert!(!scratch.join("no").exists());
    for name in ["repo-dump", "repo-gc"] {
        let mut command = scratch.command(Binaries::get().path(name));
        let done = run(command.env("REPO_FILE", &dangling));
        // To throw away from nothing is no error.
        let done = done.code(if name == "repo-gc" { 0 } else { 2 });
        let said = done.errors();
        assert!(
            said.contains(&*dangling.to_string_lossy())
                && said.contains("there is no repository")
                && said.contains("--repo"),
            "{}",
            done.report()
        );
    }
    // A symbolic link that does.
    let linked = scratch.join("link.repo");
    std::os::unix::fs::symlink(&dangling, &linked).expect("linked");
    let mut command = compile(&scratch, &gcc, &[], "a.o");
    let done = run(command.env("REPO_FILE", &linked));
    object_stays(
        &scratch,
        done,
        &[&linked.to_string_lossy(), "symbolic link", "does not exist"],
    );
}

/// Where each user has a group of their own, everything is made writable by it.
#[test]
fn a_group_of_ones_own_is_not_others() {
    let [gcc] = require!("gcc");
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let repository = project(&scratch, &gcc);
    let directory = scratch.join("project");
    let compile = || run(&mut compile(&scratch, &gcc, &[], "project/build/a.o"));
    // Root's own group.
    set_mode(&repository, 0o660);
    set_mode(&directory, 0o775);
    let used = compile().ok();
    assert_eq!(used.errors(), "", "{}", used.report());
    let before = fs::read(&repository).expect("read");
    // With an access control list (acl(5)), these bits are also those of whom it names.
    let entry = |tag: u16, user: u32| {
        let permissions: u16 = 7;
        let halves = [tag.to_le_bytes(), permissions.to_le_bytes()].concat();
        [halves, user.to_le_bytes().to_vec()].concat()
    };
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, user) in [
        (1, u32::MAX),
        (2, SOMEBODY),
        (4, u32::MAX),
        (16, u32::MAX),
        (32, u32::MAX),
    ] {
        list.extend(entry(tag, user));
    }
    // Nothing for all others.
    let last = list.len() - 6;
    list[last] = 0;
    let name = "system.posix_acl_access";
    let flags = rustix::fs::XattrFlags::empty();
    match rustix::fs::setxattr(&directory, name, &list, flags) {
        Ok(()) => {
            let reason = "others may write it (mode 0770)";
            ignored(&scratch, compile(), &repository, &before, reason);
            rustix::fs::removexattr(&directory, name).expect("removed");
        }
        Err(_) => tools::skip("access control lists"),
    }
    // A group that is not.
    set_mode(&directory, 0o755);
    chown(&repository, None, Some(SOMEBODY)).expect("given");
    set_mode(&repository, 0o660);
    let reason = "others may write it (mode 0660)";
    ignored(&scratch, compile(), &repository, &before, reason);
}
