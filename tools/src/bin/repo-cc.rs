//! `repo-cc COMPILER ARGUMENTS…`: see [`tools::cc`].

fn main() -> std::process::ExitCode {
    tools::cc::main()
}
