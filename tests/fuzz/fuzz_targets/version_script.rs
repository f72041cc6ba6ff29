//! Version scripts and dynamic lists: parsed, and asked about a few names and about the script's own words.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linker::version_script::{Matcher, parse, parse_dynamic_list, parse_prefix};

const NAMES: [&[u8]; 6] = [
    b"",
    b"foo",
    b"_ZN2ns3fooEv",
    b"_ZNSt6vectorIiSaIiEE9push_backEOi",
    b"_Z",
    b"\xff*",
];

fuzz_target!(|data: &[u8]| {
    if let Ok(script) = parse(data) {
        let matcher = Matcher::new(&script.nodes);
        let own = data.split(|byte| b" \n\t;{}\"".contains(byte)).take(16);
        for name in NAMES.into_iter().chain(own) {
            if let Some(verdict) = matcher.find(name) {
                assert!((verdict.node as usize) < script.nodes.len());
            }
        }
        script.literal_globals().count();
    }
    if let Ok((_, length)) = parse_prefix(data) {
        assert!(length <= data.len());
    }
    if let Ok(patterns) = parse_dynamic_list(data) {
        let matcher = Matcher::of_list(&patterns);
        assert!(!matcher.is_empty() || NAMES.iter().all(|name| !matcher.matches(name)));
    }
});
