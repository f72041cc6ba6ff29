//! `repo-ld`, in place of `ld`.

use linker::args::{Args, help};
use linker::diag::{DiagOptions, Diagnostics};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args_os().skip(1)) {
        Ok(args) => args,
        Err(why) => {
            eprintln!("repo-ld: error: {why}");
            return ExitCode::FAILURE;
        }
    };
    print!("{}", help::information(&args, "repo-ld"));
    if args.info.exit {
        return ExitCode::SUCCESS;
    }
    if let Some(threads) = args.threads {
        // Fails only if there is a pool already, and there is none.
        let _ = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build_global();
    }
    let diag = Diagnostics::new(DiagOptions::from_args(&args));
    for warning in &args.warnings {
        diag.warn(warning);
    }
    if args.inputs.is_empty() && args.scripts.is_empty() {
        if args.info.version {
            return ExitCode::SUCCESS;
        }
        diag.error("no input files");
    } else {
        let finished = || {
            diag.flush_to_stderr();
            std::process::exit(diag.exit_code().into());
        };
        if linker::link::link(&args, &diag, finished).is_err() {
            linker::log::failed(&args);
        }
    }
    diag.flush_to_stderr();
    ExitCode::from(diag.exit_code())
}
