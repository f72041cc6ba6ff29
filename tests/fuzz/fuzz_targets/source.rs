#![no_main]
repo_fuzz::target!(Source);
