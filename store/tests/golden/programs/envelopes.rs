//! Tickets, images, and records in envelopes (sections 21 to 24).

use super::*;

/// Section 22.
pub struct Image<'f> {
    pub options: Key,
    pub written: u64,
    pub output_size: u64,
    pub path: &'f [u8],
    /// Address of the compilation, and path.
    pub inputs: Vec<(u64, &'f [u8])>,
}

/// Section 24.
#[derive(Debug)]
pub struct Envelope<'f> {
    pub class: u8,
    pub body_version: u8,
    /// Strength and address.
    pub references: Vec<(u8, u64)>,
    pub names: Vec<u32>,
    pub pieces: Vec<u32>,
    pub body: Cow<'f, [u8]>,
}

impl Programs {
    /// Section 20: address of the compilation, when it was written, and path.
    pub fn ticket(&self, address: u64) -> (u64, u64, &[u8]) {
        let mut cursor = Cursor::new(self.value(address, 4));
        (cursor.u64(), cursor.u64(), cursor.rest())
    }

    pub fn image(&self, address: u64) -> Image<'_> {
        let mut cursor = Cursor::new(self.value(address, 6));
        let (options, written, output_size) = (cursor.key(), cursor.u64(), cursor.u64());
        let (path_size, inputs) = (cursor.u32(), cursor.u32());
        cursor.zeros(8);
        let path = cursor.bytes(path_size as usize);
        cursor.align(8);
        let inputs = (0..inputs)
            .map(|_| {
                let input = (cursor.u64(), self.name(cursor.u32()));
                cursor.zeros(4);
                input
            })
            .collect();
        cursor.end();
        Image {
            options,
            written,
            output_size,
            path,
            inputs,
        }
    }

    pub fn envelope(&self, address: u64) -> Envelope<'_> {
        let (index, _, value) = self.record(address);
        assert!(index == 5 || (7..24).contains(&index));
        let mut cursor = Cursor::new(value);
        assert_eq!(cursor.u8(), 2, "{address:#x}");
        let (class, body_version, bits) = (cursor.u8(), cursor.u8(), cursor.u8());
        assert!(bits <= 1);
        let [references, names, pieces, size] = [(); 4].map(|()| cursor.number());
        let references: Vec<_> = (0..references)
            .map(|_| {
                let number = cursor.number();
                let (strength, target) = ((number % 4) as u8, number / 4 * 8);
                assert!(strength <= 2 && target < address);
                assert!(
                    target > 0 || strength > 0,
                    "{address:#x}: a strong reference to nothing"
                );
                if target > 0 {
                    self.record(target);
                }
                (strength, target)
            })
            .collect();
        let [names, pieces] = [names, pieces].map(|count| cursor.runs(count));
        let body = match bits {
            0 => Cow::from(cursor.rest()),
            _ => Cow::from(lz4(cursor.rest(), size as usize)),
        };
        assert_eq!(body.len() as u64, size);
        if matches!(class, 2 | 3) {
            assert!(
                references
                    .iter()
                    .any(|(strength, target)| *strength == 1 && *target > 0)
            );
        }
        for name in &names {
            self.name(*name);
        }
        for piece in &pieces {
            self.piece(*piece);
        }
        Envelope {
            class,
            body_version,
            references,
            names,
            pieces,
            body,
        }
    }

    /// Section 28, "Lists of files".
    pub(super) fn dependencies(&self, envelope: &Envelope<'_>) -> Vec<u8> {
        let (bits, mut text) = (envelope.body[0], envelope.body[1..].to_vec());
        assert!(bits < 4);
        let paths = envelope.names.iter().map(|name| {
            let condition = self.name(*name);
            match condition[0] {
                b'F' => &condition[33..],
                b'T' => &condition[34..],
                kind => panic!("a file's condition of kind {kind}"),
            }
        });
        let paths: Vec<_> = paths.collect();
        let mut column = text.rsplit(|byte| *byte == b'\n').next().unwrap().len();
        for path in &paths {
            if column + path.len() > 72 {
                let (end, start) = [(&b" \\\n"[..], 0), (b" \\\n ", 2)][usize::from(bits & 1)];
                text.extend_from_slice(end);
                column = start;
            }
            text.push(b' ');
            text.extend_from_slice(path);
            column += 1 + path.len();
        }
        text.push(b'\n');
        for path in paths.iter().skip(1).filter(|_| bits & 2 != 0) {
            text.extend_from_slice(path);
            text.extend_from_slice(b":\n");
        }
        text
    }

    /// Sections 21 and 26 to 33.
    pub(super) fn check_kind(&self, index: u8, key: &Key, envelope: &Envelope<'_>) {
        let owners = envelope
            .references
            .iter()
            .filter(|(strength, _)| *strength == 1);
        if matches!(index, 12 | 13 | 14 | 16) {
            let mut owners = owners.filter(|(_, target)| *target > 0);
            assert!(owners.any(|(_, target)| self.record(*target).1 == *key));
        }
        // Strong references lead to what is never replaced, and to the newest of its key.
        for (strength, target) in &envelope.references {
            if *strength == 0 {
                let (of, key, _) = self.record(*target);
                assert!(!matches!(of, 4 | 6 | 7 | 8 | 12 | 13 | 14 | 16));
                assert_eq!(self.find(of, &key), Some(*target));
            }
        }
        if index == 9 && envelope.body_version == 2 {
            let digest = Digested(self.dependencies(envelope)).digest("repo.captured.1");
            assert_eq!(digest, *key);
        }
        if envelope.body_version != 1 {
            return;
        }
        let mut cursor = Cursor::new(&envelope.body);
        match index {
            5 => {
                cursor.u16();
                cursor.zeros(6);
                assert_eq!(envelope.names.len(), 1);
                assert!(
                    envelope
                        .references
                        .iter()
                        .all(|(strength, _)| *strength == 0)
                );
            }
            8 => self.check_manifest(envelope, cursor),
            9 => assert_eq!(
                Digested(envelope.body.to_vec()).digest("repo.captured.1"),
                *key
            ),
            10 => {
                let mut digested = Digested::default();
                assert_eq!(envelope.names.len(), 1);
                digested.string(self.name(envelope.names[0]));
                digested.long(cursor.u64());
                digested.long(cursor.u64());
                cursor.bytes(32);
                cursor.end();
                assert_eq!(digested.digest("repo.compiler.1"), *key);
            }
            16 => {
                cursor.u32();
                cursor.zeros(4);
                cursor.end();
                assert_eq!(envelope.references.len(), 1);
            }
            _ => {}
        }
    }

    pub(super) fn check_manifest(&self, envelope: &Envelope<'_>, mut cursor: Cursor<'_>) {
        let [parts, conditions, results, _day] = [(); 4].map(|()| cursor.u32() as usize);
        assert_eq!(parts + conditions, envelope.names.len());
        let leads_to = |place: u32, index: u8| {
            let (found, target) = envelope.references[place as usize];
            assert_eq!(found, 0);
            assert_eq!(self.record(target).0, index);
        };
        for _ in 0..results {
            let [compilation, diagnostics, dependencies, files, bits] =
                [(); 5].map(|()| cursor.u32());
            cursor.zeros(4);
            assert!(compilation > 0 || files > 0);
            if compilation > 0 {
                leads_to(compilation - 1, 3);
            }
            for captured in [diagnostics, dependencies, files] {
                if captured > 0 {
                    leads_to(captured - 1, 9);
                }
            }
            assert!(bits <= 1);
        }
        for _ in 0..results {
            let words: Vec<u64> = (0..conditions.div_ceil(64)).map(|_| cursor.u64()).collect();
            let has = |number: usize| words[number / 64] >> (number % 64) & 1 != 0;
            assert!((conditions..words.len() * 64).all(|number| !has(number)));
            let names = envelope.names[parts..].iter().enumerate();
            let kinds = names.filter(|(number, _)| has(*number)).map(|(_, name)| {
                let condition = self.name(*name);
                match condition[0] {
                    b'F' | b'L' => assert!(condition.len() > 33),
                    b'T' => assert!(condition.len() > 34 && condition[33] <= 3),
                    b'A' | b'G' | b'S' | b'P' | b'V' => assert!(condition.len() > 1),
                    b'D' => assert_eq!(condition.last(), Some(&0)),
                    b'N' => assert!(condition.len() > 3),
                    kind => panic!("a condition of kind {kind}"),
                }
                condition[0]
            });
            assert!(kinds.filter(|kind| *kind == b'D').count() <= 1);
        }
        cursor.end();
    }
}
