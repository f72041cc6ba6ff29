//! `repo-cc COMPILER ARGUMENTS…`: see [`tools::cc`].

fn main() -> std::process::ExitCode {
    store::heap::keep();
    store::guard::install(
        "repo-cc",
        "the object stays an ordinary object; compile again",
    );
    tools::cc::main()
}
