//! `repo-ld`, in place of `ld`.

use linker::args::{Args, ArgsError, help};
use linker::input::host::Host;
use linker::input::scripts;
use linker::link::fallback_ld;
use linker::messages::diag::{DiagOptions, Diagnostics};
use linker::messages::process_exit::{apart, leave};
use linker::messages::stdio;
use std::os::fd::RawFd;
use std::process::ExitCode;
use std::sync::Once;

/// With fewer bytes of inputs a second thread is not worth its start. Measured where they break even, some 15 ms: below, one
/// thread was up to a seventh faster, and its processor time is less in any case.
const WORK_OF_ONE: u64 = 4 << 20;

/// Bytes of inputs for which one more thread is worth starting.
const WORK_OF_THREAD: u64 = 1 << 19;

/// This process, which links once.
struct Process<'p> {
    args: &'p Args,
    diag: &'p Diagnostics,
    /// A link that is done again has its threads.
    threads: Once,
}

impl Host for Process<'_> {
    /// Chooses the number of threads; this one is one of them. A small link has been done before others would be awake.
    fn opened(&self, bytes: u64) {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.call_once(|| {
            let threads = if bytes < WORK_OF_ONE {
                // Even to count processors takes a part of such a link's time.
                1
            } else {
                let useful = usize::try_from(bytes / WORK_OF_THREAD).unwrap_or(usize::MAX);
                useful.min(self.args.threads.unwrap_or_else(processors))
            };
            let built = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .use_current_thread()
                .build_global();
            debug_assert!(built.is_ok(), "threads were used before they were counted");
        });
    }

    fn apart(&self, kept: RawFd, work: &mut (dyn FnMut() + Send)) {
        apart(kept, self.args.fork, work);
    }

    fn finished(&self) {
        self.diag.flush_to_stderr();
        leave(self.diag.exit_code(), self.args.fork);
    }
}

fn main() -> ExitCode {
    store::heap::keep();
    store::guard::install("repo-ld", "there is no output; link again");
    let mut args = match Args::parse(std::env::args_os().skip(1)) {
        Ok(args) => args,
        Err(why) => {
            let other = matches!(why, ArgsError::Emulation(_))
                .then(|| fallback_ld::become_it(std::env::args_os().skip(1)));
            let other = other.map_or_else(String::new, |why| format!("; {why}"));
            linker::tell!("repo-ld: error: {why}{other}");
            return ExitCode::FAILURE;
        }
    };
    args.take_environment(&linker::args::environment::Environment::of_process());
    let information = help::information(&args, "repo-ld", || scripts::tell(&args));
    if let Err(why) = stdio::try_print(format_args!("{information}")) {
        linker::tell!("repo-ld: error: cannot write to standard output: {why}");
        return ExitCode::FAILURE;
    }
    if args.info.exit {
        return ExitCode::SUCCESS;
    }
    let diag = Diagnostics::new(DiagOptions::from_args(&args));
    if args.inputs.is_empty() && args.scripts.is_empty() {
        if args.info.version || args.verbose {
            return ExitCode::SUCCESS;
        }
        for warning in &args.warnings {
            diag.warn(warning);
        }
        diag.error("no input files");
    } else {
        linker::link::choose(&mut args);
        let process = Process {
            args: &args,
            diag: &diag,
            threads: Once::new(),
        };
        if linker::link::link(&args, &diag, &process).is_err() {
            linker::messages::link_log::failed(&args);
        }
    }
    diag.flush_to_stderr();
    ExitCode::from(diag.exit_code())
}
