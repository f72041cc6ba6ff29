//! The short form of all attacks: as many tries of each as the table says, with numbers that are the same every time.

use repo_attack::{ATTACKS, Attack, Extent};
use repo_tests::sources::project_root;
use repo_tests::tools;

#[test]
fn every_attack_is_withstood() {
    let attacks: Vec<&Attack> = ATTACKS.iter().collect();
    let keep = project_root().join("target/attack");
    let mut report = |text: &str| eprintln!("{text}\n");
    let rows = repo_attack::run(&attacks, Extent::Short, 0, &keep, &mut report);
    let table = repo_attack::run::table(&rows);
    for row in &rows {
        if let Some(why) = &row.impossible {
            tools::skip(&format!("attack {}: {}", row.name, why.trim()));
        }
    }
    let failures = rows.iter().map(|row| row.failures.len()).sum::<usize>();
    assert_eq!(failures, 0, "what failed is in target/attack\n{table}");
}
