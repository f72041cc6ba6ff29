#![no_main]
repo_fuzz::target!(Program);
