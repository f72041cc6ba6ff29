use super::*;

fn parsed(text: &str) -> VersionScript {
    parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn problem(text: &str) -> String {
    parse(text.as_bytes()).expect_err(text).to_string()
}

/// The verdicts as `node` or `node!` for local.
fn verdicts(text: &str, names: &[&str]) -> Vec<String> {
    let script = parsed(text);
    let matcher = Matcher::new(&script.nodes);
    names
        .iter()
        .map(|name| match matcher.find(name.as_bytes()) {
            Some(Verdict { node, is_local }) => {
                format!("{node}{}", if is_local { "!" } else { "" })
            }
            None => "-".into(),
        })
        .collect()
}

/// The example of the manual.
const MANUAL: &str = r#"
VERS_1.1 {
	 global:
		 foo1;
	 local:
		 old*;
		 original*;
		 new*;
};
VERS_1.2 {
		 foo2;
} VERS_1.1;
VERS_2.0 { # a comment
		 bar1; bar2;
	 extern "C++" {
		 ns::*;
		 "f(int, double)";
	 };
} VERS_1.2;
"#;

#[test]
fn the_example_of_the_manual() {
    let script = parsed(MANUAL);
    let names: Vec<_> = script
        .nodes
        .iter()
        .map(|node| String::from_utf8(node.name.clone().unwrap()).unwrap())
        .collect();
    assert_eq!(names, ["VERS_1.1", "VERS_1.2", "VERS_2.0"]);
    assert_eq!(script.nodes[2].parents, [b"VERS_1.2".to_vec()]);
    assert_eq!(script.nodes[2].line, 13);
    assert_eq!(
        verdicts(
            MANUAL,
            &[
                "foo1",
                "foo2",
                "bar2",
                "older",
                "new",
                "_ZN2ns3barEv",
                "_Z1fid",
                "_Z1fi",
                "other"
            ]
        ),
        ["0", "1", "2", "0!", "0!", "2", "2", "-", "-"]
    );
}

#[test]
fn the_anonymous_node() {
    let text = "{ global: foo; bar; local: *; };";
    assert_eq!(parsed(text).nodes[0].name, None);
    assert_eq!(verdicts(text, &["foo", "bar", "baz"]), ["0", "0", "0!"]);
    assert_eq!(
        problem("{ foo; }; V { bar; };"),
        "1: an anonymous version node must be the only one"
    );
}

#[test]
fn a_literal_name_decides_before_patterns() {
    // Wherever it stands, and also for local against a global pattern.
    assert_eq!(
        verdicts("A { f*; }; B { foo; local: *; } A;", &["foo", "fob", "x"]),
        ["1", "0", "1!"]
    );
    assert_eq!(
        verdicts("A { f*; local: foo; };", &["foo", "fob"]),
        ["0!", "0"]
    );
    // The first node that has it, and global before local.
    assert_eq!(verdicts("A { foo; }; B { foo; };", &["foo"]), ["0"]);
    assert_eq!(verdicts("A { foo; local: foo; };", &["foo"]), ["0"]);
    assert_eq!(
        verdicts("A { local: foo; }; B { global: foo; };", &["foo"]),
        ["0!"]
    );
}

#[test]
fn of_patterns_the_last_node_decides_global_before_local_and_stars_last() {
    assert_eq!(
        verdicts("A { f*; }; B { fo*; };", &["foo", "fa"]),
        ["1", "0"]
    );
    assert_eq!(verdicts("A { global: f*; local: fo*; };", &["foo"]), ["0"]);
    assert_eq!(
        verdicts("A { global: *; }; B { local: f*; };", &["foo", "x"]),
        ["1!", "0"]
    );
    assert_eq!(verdicts("A { global: *; local: *; };", &["foo"]), ["0"]);
    assert_eq!(verdicts("A { *; }; B { *; };", &["foo"]), ["1"]);
}

#[test]
fn quoted_names_are_literal() {
    let text = r#"V { "f*"; extern "C++" { "g*"; h*; "operator new(unsigned long)"; }; };"#;
    assert_eq!(
        verdicts(text, &["f*", "foo", "_Z1gv", "_Z1hv", "_Znwm", "huh"]),
        ["0", "-", "-", "0", "0", "0"]
    );
}

#[test]
fn names_of_cxx_that_are_not_mangled_stand_for_themselves() {
    assert_eq!(
        verdicts(
            r#"V { extern "C++" { foo; b*; }; extern "C" { c; }; };"#,
            &["foo", "bar", "c"]
        ),
        ["0", "0", "0"]
    );
}

#[test]
fn labels_and_semicolons_as_people_write_them() {
    // Repeated labels, empty statements, symbols that are named like labels.
    let text = "V{global:a;b;;local:c;global:d;local:*;};";
    assert_eq!(
        verdicts(text, &["a", "b", "c", "d", "e"]),
        ["0", "0", "0!", "0", "0!"]
    );
    assert_eq!(
        verdicts(
            "{ global: global; local; extern; local: *; };",
            &["global", "local", "extern", "x"]
        ),
        ["0", "0", "0", "0!"]
    );
    assert_eq!(
        verdicts("V { extern \"C++\" { a::b }; };", &["_ZN1a1bE"]),
        ["0"]
    );
    // Only there may the last one do without.
    for text in [
        "V { a };",
        "V { local: * };",
        "V { extern \"C++\" { a; } };",
    ] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
    }
    assert_eq!(verdicts("V { };", &["a"]), ["-"]);
    assert_eq!(parsed("").nodes.len(), 0);
    assert_eq!(parsed("/* c */ V { a; } ;\n# x").nodes.len(), 1);
}

#[test]
fn character_classes_and_escapes() {
    assert_eq!(
        verdicts(
            r"V { f[0-9]; g\*; h?i; };",
            &["f7", "fx", "g*", "gx", "hxi"]
        ),
        ["0", "-", "0", "-", "0"]
    );
}

#[test]
fn errors_name_the_line_and_what_was_expected() {
    assert_eq!(
        problem("V {\n foo bar;\n};"),
        "2: expected ';', found 'bar'"
    );
    assert_eq!(
        problem("V { foo; }"),
        "1: expected ';' after the version node, found the end of the file"
    );
    assert_eq!(
        problem("V { foo;\n"),
        "2: expected '}', found the end of the file"
    );
    assert_eq!(
        problem("V { a; };\nW { b; } X;"),
        "2: version 'X' is not defined before this"
    );
    assert_eq!(
        problem("V { a; };\nV { b; };"),
        "2: version 'V' is defined twice"
    );
    assert_eq!(problem("V { \"a };"), "1: unterminated string");
    assert_eq!(problem("\n/* "), "2: unclosed comment");
    assert_eq!(
        problem("V { extern \"Ada\" { a; }; };"),
        "1: unknown language \"Ada\": expected \"C\" or \"C++\""
    );
    assert_eq!(
        problem("V { extern \"C\" { extern \"C\" { a; }; }; };"),
        "1: extern blocks may not be nested"
    );
    assert_eq!(problem("} "), "1: expected a version node, found '}'");
    assert_eq!(problem("V foo { };"), "1: expected '{', found 'foo'");
}

#[test]
fn dynamic_lists() {
    let list =
        parse_dynamic_list(b"{ foo; b*; extern \"C++\" { ns::*; }; };\n{ \"x\"; };").unwrap();
    let mut matcher = Matcher::of_list(&list);
    matcher.add_glob(b"glob_*");
    let mentioned = |name: &str| matcher.matches(name.as_bytes());
    assert!(
        mentioned("foo")
            && mentioned("bar")
            && mentioned("_ZN2ns1xE")
            && mentioned("x")
            && mentioned("glob_1")
    );
    assert!(!mentioned("other") && !mentioned("_ZN3foo1xE"));
    assert_eq!(
        parse_dynamic_list(b"{ foo; }").unwrap_err().to_string(),
        "1: expected ';', found the end of the file"
    );
    assert!(parse_dynamic_list(b"foo").is_err());
    assert!(Matcher::of_list(&[]).is_empty());
}

#[test]
fn a_prefix_ends_at_the_unmatched_brace() {
    let (script, length) = parse_prefix(b"V { a; }; }  rest").unwrap();
    assert_eq!(script.nodes.len(), 1);
    assert_eq!(length, 10);
}

#[test]
fn literal_globals_for_undefined_version() {
    let names: Vec<_> = parsed("V { a; b*; \"c*\"; local: d; };")
        .literal_globals()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, [b"a".to_vec(), b"c*".to_vec()]);
}
