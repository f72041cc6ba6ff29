//! A Rust program with threads, collections, panics that are caught, and thread-local storage.
use std::collections::HashMap;
use std::ffi::c_int;

thread_local!(static COUNT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });

#[no_mangle]
pub extern "C" fn main(_: c_int, _: *const *const i8) -> c_int {
    let threads: Vec<_> = (0..4)
        .map(|i| {
            std::thread::spawn(move || {
                COUNT.with(|count| count.set(i));
                let map: HashMap<usize, String> = (0..i).map(|n| (n, n.to_string())).collect();
                map.len() + COUNT.with(|count| count.get())
            })
        })
        .collect();
    let sum: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
    let caught = std::panic::catch_unwind(|| panic!("{sum}"));
    println!("{sum} {}", caught.is_err());
    0
}
