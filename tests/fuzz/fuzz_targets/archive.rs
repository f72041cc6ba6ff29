//! Archives: all members, all of the symbol index, every member that it names.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use linker::archive::{Archive, MemberBody};

fuzz_target!(|data: &[u8]| {
    let Ok(archive) = Archive::parse(data) else {
        return;
    };
    let mut end = 0;
    for member in archive.members() {
        let Ok(member) = member else { break };
        if let MemberBody::Inline(range) = &member.body {
            assert!(range.start as u64 >= member.header_offset && range.end <= data.len());
            assert!(archive.inline_data(&member).is_some());
        }
        assert!(member.header_offset >= end, "members do not overlap");
        end = member.header_offset + 60;
        assert!(
            archive
                .member_at(member.header_offset)
                .is_ok_and(|again| again == member)
        );
        member.thin_path(Path::new("dir/lib.a"));
    }
    for symbol in archive.symbols().into_iter().flatten() {
        let Ok((_, offset)) = symbol else { break };
        let _ = archive.member_at(offset);
    }
});
