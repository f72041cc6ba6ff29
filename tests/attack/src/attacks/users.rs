//! Another user of the machine: may not read or change what is this user's, and does not get his code into this user's
//! programs.

use crate::field::UNITS;
use crate::oracle::ends_cleanly;
use crate::{Failure, Field, Verdict};
use repo_tests::process::run;
use repo_tests::tools::on_path;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Command;

/// `nobody`.
const OTHER: u32 = 65534;

/// Root is one of the two users, nobody the other.
pub fn other(field: &mut Field) -> Verdict {
    if !rustix::process::geteuid().is_root() || on_path("setpriv").is_none() {
        return Err(Failure::Impossible("needs root, and setpriv".into()));
    }
    match field.random.one_in(2) {
        true => reads_ours(field),
        false => offers_his(field),
    }
}

fn permit(field: &Field, mode: u32) -> Verdict {
    let set = std::fs::set_permissions(field.scratch.path(), Permissions::from_mode(mode));
    set.map_err(|why| Failure::Impossible(why.to_string()))
}

/// The other one runs our programs on a repository of mode 0600 that is not his.
fn reads_ours(field: &mut Field) -> Verdict {
    permit(field, 0o755)?;
    let unit = UNITS[field.random.below(UNITS.len())];
    let command = match field.random.below(4) {
        0 => field.compact(),
        1 => field.link_alone(),
        2 => field.verify(),
        _ => field.compile(unit),
    };
    let mut as_other = Command::new("setpriv");
    as_other
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(field.scratch.path())
        .env("REPO_FILE", field.scratch.repository())
        .env("HOME", "/nonexistent");
    let ended = run(&mut as_other);
    if ended.errors().contains("setpriv: ") {
        return Err(Failure::Impossible(ended.errors()));
    }
    ends_cleanly(&ended)?;
    if ended.status.success() {
        return Err(Failure::broken(format!(
            "another user could do what needs this user's files\n{}",
            ended.report()
        )));
    }
    if field.read(&field.scratch.repository())? != field.good() {
        return Err(Failure::broken("another user changed the repository"));
    }
    permit(field, 0o700)?;
    field.survives()
}

/// The other one has put a repository where root's builds look for one.
fn offers_his(field: &mut Field) -> Verdict {
    let repository = field.scratch.repository();
    let given = chown(&repository, Some(OTHER), Some(OTHER));
    given.map_err(|why| Failure::Impossible(why.to_string()))?;
    let unit = UNITS[field.random.below(UNITS.len())];
    field.edit(unit)?;
    // Nobody names it: it is found above the output.
    let mut compile = field.compile(unit);
    compile
        .env_remove("REPO_FILE")
        .env("XDG_STATE_HOME", field.scratch.join("state"));
    let compiled = run(&mut compile);
    ends_cleanly(&compiled)?;
    let is_used = field.read(&repository)? != field.good();
    if is_used {
        return Err(Failure::broken(format!(
            "a repository of another user was used\n{}",
            compiled.report()
        )));
    }
    Ok(())
}
