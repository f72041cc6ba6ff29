//! Running each day: by the user's systemd, or, where there is none, by cron.

use anyhow::{Context, Result, bail};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SERVICE: &str = "repo-gc.service";
const TIMER: &str = "repo-gc.timer";

/// Ends the line of the crontab that is ours. To the shell that cron runs, it is a comment.
const MARK: &[u8] = b"# repo-gc --install-timer";

const TIMER_TEXT: &str = "\
[Unit]
Description=Throw away each day what no ticket of a program repository needs any more
Documentation=man:repo-gc(1)

[Timer]
OnCalendar=daily
RandomizedDelaySec=1h
Persistent=true

[Install]
WantedBy=timers.target
";

/// Has `program` run each day with these words. Says what was done.
///
/// # Errors
/// If there is neither systemd nor cron, or one of them refuses.
pub fn install(program: &Path, words: &[OsString]) -> Result<String> {
    let line = std::iter::once(program.as_os_str()).chain(words.iter().map(OsString::as_os_str));
    let line: Vec<&OsStr> = line.collect();
    if line.iter().any(|word| word.as_bytes().contains(&b'\n')) {
        bail!("a path with a line break in it cannot be given to systemd or cron");
    }
    if !has_systemd() {
        let told = change_crontab(|crontab| {
            crontab.extend_from_slice(b"17 3 * * * ");
            crontab.extend_from_slice(&for_cron(&line));
            crontab.push(b' ');
            crontab.extend_from_slice(MARK);
            crontab.push(b'\n');
        });
        told.context("there is no systemd that runs services of this user, and cron")?;
        return Ok("the user's crontab has a line that runs repo-gc each day".to_owned());
    }
    let folder = units()?;
    fs::create_dir_all(&folder).with_context(|| format!("{}: cannot make", folder.display()))?;
    let mut service = b"[Unit]\n\
        Description=Throw away what no ticket of a program repository needs any more\n\
        Documentation=man:repo-gc(1)\n\n\
        [Service]\n\
        Type=oneshot\n\
        ExecStart="
        .to_vec();
    service.extend_from_slice(&for_systemd(&line));
    service.push(b'\n');
    for (name, text) in [(SERVICE, &service[..]), (TIMER, TIMER_TEXT.as_bytes())] {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("{}: cannot write", path.display()))?;
    }
    let enabled =
        systemctl(&["daemon-reload"]).and_then(|()| systemctl(&["enable", "--now", TIMER]));
    if enabled.is_err() {
        remove_units(&folder);
    }
    enabled?;
    Ok(format!(
        "{}: runs repo-gc each day",
        folder.join(TIMER).display()
    ))
}

/// Ends what [`install`] has begun. Says what was done.
///
/// # Errors
/// If that is refused.
pub fn remove() -> Result<String> {
    let mut done = Vec::new();
    let folder = units()?;
    if [SERVICE, TIMER]
        .iter()
        .any(|name| folder.join(name).exists())
    {
        if has_systemd() {
            systemctl(&["disable", "--now", TIMER])?;
        }
        remove_units(&folder);
        if has_systemd() {
            systemctl(&["daemon-reload"])?;
        }
        done.push(format!("{}: removed", folder.join(TIMER).display()));
    }
    if crontab()?.is_some_and(|crontab| lines(&crontab).any(is_ours)) {
        change_crontab(|_| {})?;
        done.push("the line in the user's crontab: removed".to_owned());
    }
    match done.is_empty() {
        true => Ok("there is no timer".to_owned()),
        false => Ok(done.join("\n")),
    }
}

/// Where systemd looks for what the user has it do.
fn units() -> Result<PathBuf> {
    let absolute = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let configuration = absolute("XDG_CONFIG_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".config")))
        .context("neither $XDG_CONFIG_HOME nor $HOME is an absolute path")?;
    Ok(configuration.join("systemd/user"))
}

fn remove_units(folder: &Path) {
    for name in [SERVICE, TIMER] {
        // They may not be there.
        let _ = fs::remove_file(folder.join(name));
    }
}

/// Whether there is a systemd that runs services of this user, and answers.
fn has_systemd() -> bool {
    let mut command = Command::new("systemctl");
    command.args(["--user", "show-environment"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn systemctl(words: &[&str]) -> Result<()> {
    let mut command = Command::new("systemctl");
    let done = command
        .arg("--user")
        .args(words)
        .stdin(Stdio::null())
        .output();
    let done = done.context("cannot run systemctl")?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!("systemctl --user {}: {}", words.join(" "), said.trim());
    }
    Ok(())
}

/// The user's crontab, which is empty if there is none; `None` where there is no cron.
fn crontab() -> Result<Option<Vec<u8>>> {
    let listed = Command::new("crontab")
        .arg("-l")
        .stdin(Stdio::null())
        .output();
    match listed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("cannot run crontab"),
        // "no crontab for …"
        Ok(listed) if !listed.status.success() => Ok(Some(Vec::new())),
        Ok(listed) => Ok(Some(listed.stdout)),
    }
}

/// Replaces our line of the crontab by what `add` adds at its end.
fn change_crontab(add: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
    let before = crontab()?.context("there is no crontab(1)")?;
    let mut after = Vec::new();
    for line in lines(&before).filter(|line| !is_ours(line)) {
        after.extend_from_slice(line);
        after.push(b'\n');
    }
    add(&mut after);
    let mut command = Command::new("crontab");
    command
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot run crontab")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&after).context("cannot write to crontab")?;
    }
    let done = child.wait_with_output()?;
    if !done.status.success() {
        bail!("crontab: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(())
}

fn lines(crontab: &[u8]) -> impl Iterator<Item = &[u8]> {
    let crontab = crontab.strip_suffix(b"\n").unwrap_or(crontab);
    let is_empty = crontab.is_empty();
    crontab
        .split(|byte| *byte == b'\n')
        .filter(move |_| !is_empty)
}

fn is_ours(line: &[u8]) -> bool {
    line.ends_with(MARK)
}

/// A command as systemd.service(5) wants it: each word in quotes, `$` and `%` twice.
fn for_systemd(words: &[&OsStr]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, word) in words.iter().enumerate() {
        if number > 0 {
            out.push(b' ');
        }
        out.push(b'"');
        for &byte in word.as_bytes() {
            match byte {
                b'"' | b'\\' => out.extend([b'\\', byte]),
                // The program itself is not searched for variables.
                b'$' if number == 0 => out.push(byte),
                b'$' | b'%' => out.extend([byte, byte]),
                _ => out.push(byte),
            }
        }
        out.push(b'"');
    }
    out
}

/// A command as crontab(5) wants it: for a shell, and `%` with a backslash before it, which cron takes away.
fn for_cron(words: &[&OsStr]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, word) in words.iter().enumerate() {
        if number > 0 {
            out.push(b' ');
        }
        out.push(b'\'');
        for &byte in word.as_bytes() {
            match byte {
                b'\'' => out.extend(b"'\\''"),
                b'%' => out.extend(b"\\%"),
                _ => out.push(byte),
            }
        }
        out.push(b'\'');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{for_cron, for_systemd, is_ours, lines};
    use std::ffi::OsStr;

    #[test]
    fn words_are_quoted() {
        let words = ["/a b/$x/repo-gc", "--repo=/50%/it's $HOME\\\"q\""].map(OsStr::new);
        let shown = String::from_utf8(for_systemd(&words)).unwrap();
        assert_eq!(
            shown,
            r#""/a b/$x/repo-gc" "--repo=/50%%/it's $$HOME\\\"q\"""#
        );
        let shown = String::from_utf8(for_cron(&words)).unwrap();
        let expected = r#"'/a b/$x/repo-gc' '--repo=/50\%/it'\''s $HOME\"q"'"#;
        assert_eq!(shown, expected);
    }

    #[test]
    fn crontabs_have_lines() {
        assert_eq!(lines(b"").count(), 0);
        assert_eq!(lines(b"a\n\nb\n").count(), 3);
        assert!(is_ours(b"17 3 * * * 'repo-gc' # repo-gc --install-timer"));
        assert!(!is_ours(b"17 3 * * * repo-gc --idle"));
    }
}
