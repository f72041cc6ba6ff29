//! What the programs say and do when somebody else's lock makes them wait.

use crate::engine::{Holder, Patience};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The variable that says how many seconds to wait at most for a repository that another
/// process has locked and does not use.
pub const VARIABLE: &str = "REPO_LOCK_WAIT";

/// As long as this nobody need know of it.
const TELL_AFTER: Duration = Duration::from_secs(1);
/// Without the variable.
const GIVE_UP_AFTER: Duration = Duration::from_secs(10);

/// The patience of a program, which is given one line for the user by `say`.
pub fn patience(say: impl Fn(&str) + Send + Sync + 'static) -> Patience {
    let give_up_after = std::env::var(VARIABLE)
        .ok()
        .and_then(|text| seconds(&text))
        .unwrap_or(GIVE_UP_AFTER);
    Patience {
        tell_after: TELL_AFTER,
        give_up_after,
        tell: Arc::new(move |path, holder| say(&line(path, holder, give_up_after))),
    }
}

/// A number of seconds, such as `0.5`.
fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.trim().parse().ok()?).ok()
}

fn line(path: &Path, holder: Option<Holder>, most: Duration) -> String {
    let path = path.display();
    let holder = match holder {
        Some(holder) => holder.to_string(),
        None => "another process".to_owned(),
    };
    let most = most.as_secs_f64();
    format!("waiting for {holder}, which has locked {path} (for {most} s at most: ${VARIABLE})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_seconds() {
        assert_eq!(seconds("0.25"), Some(Duration::from_millis(250)));
        assert_eq!(seconds(" 3 "), Some(Duration::from_secs(3)));
        for bad in ["", "-1", "soon", "1e99", "NaN", "inf"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn who_is_waited_for_is_named() {
        let holder = Holder {
            process: 12,
            name: "repo-gc".to_owned(),
            is_stopped: true,
        };
        assert_eq!(
            line(Path::new("/r"), Some(holder), Duration::from_secs(10)),
            "waiting for process 12 (repo-gc, stopped), which has locked /r \
             (for 10 s at most: $REPO_LOCK_WAIT)"
        );
    }
}
