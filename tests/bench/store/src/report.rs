//! What was measured, round after round: medians with their spread, and ratios of
//! figures of the same round, which is what counts on a machine whose speed changes
//! from minute to minute.

use std::fmt;

/// All values of one figure, one a round.
struct Figure {
    what: &'static str,
    who: &'static str,
    unit: &'static str,
    values: Vec<f64>,
}

/// Everything that was measured.
#[derive(Default)]
pub struct Report(Vec<Figure>);

/// Median, least and greatest.
struct Spread([f64; 3]);

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        let (first, last) = (*values.first()?, *values.last()?);
        Some(Spread([values[values.len() / 2], first, last]))
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, first, last] = self.0;
        // Four digits, whatever the size.
        let digits = (3 - median.abs().max(0.01).log10().floor() as i32).clamp(0, 3) as usize;
        write!(
            f,
            "{median:10.digits$}  [{first:.digits$} – {last:.digits$}]"
        )
    }
}

impl Report {
    /// Adds a value, and says it.
    pub fn add(&mut self, what: &'static str, who: &'static str, value: f64, unit: &'static str) {
        println!("{what:42} {who:20} {value:12.3} {unit}");
        let known = |figure: &&mut Figure| figure.what == what && figure.who == who;
        match self.0.iter_mut().find(known) {
            Some(figure) => figure.values.push(value),
            None => self.0.push(Figure {
                what,
                who,
                unit,
                values: vec![value],
            }),
        }
    }

    fn values(&self, what: &str, who: &str) -> Option<&[f64]> {
        let found = self.0.iter().find(|f| f.what == what && f.who == who)?;
        Some(&found.values)
    }

    /// The best of the others in each round.
    fn best_peer(&self, what: &str) -> Option<Vec<f64>> {
        let peers: Vec<_> = (self.0.iter())
            .filter(|figure| figure.what == what && figure.who != "store")
            .map(|figure| &figure.values)
            .collect();
        let rounds = peers.iter().map(|values| values.len()).min()?;
        let best = |round| peers.iter().map(|values| values[round]).fold(0.0, f64::max);
        Some((0..rounds).map(best).collect())
    }

    /// All medians, and then the ratios that are asked for.
    pub fn print(&self) {
        println!("\nmedian [least – greatest] of all rounds\n");
        for figure in &self.0 {
            if let Some(spread) = Spread::of(figure.values.clone()) {
                println!(
                    "{:42} {:20} {spread} {}",
                    figure.what, figure.who, figure.unit
                );
            }
        }
        println!("\nratios, each of figures of the same round\n");
        let own = |what| self.values(what, "store").map(<[f64]>::to_vec);
        let of = |what, who| self.values(what, who).map(<[f64]>::to_vec);
        let (hit, miss, two) = ("lookup: hit", "lookup: miss", "lookup: hit, two threads");
        let (bulk, durable) = ("insert: all in one commit", "insert: 1000 a durable commit");
        let small = "20 records a lazy commit";
        let (alone, beside) = ("lookup: hit, alone", "lookup: hit, beside a durable writer");
        let many = "small lazy commits";
        let rows = [
            ("hit / LMDB's", own(hit), of(hit, "lmdb"), "at least 6"),
            ("miss / LMDB's", own(miss), of(miss, "lmdb"), "at least 20"),
            ("hit, two threads / one", own(two), own(hit), "at least 1.8"),
            (
                "1000 a durable commit / best peer",
                own(durable),
                self.best_peer(durable),
                "at least 2.5",
            ),
            (
                "1000 a durable commit / floor",
                own(durable),
                of("append and fdatasync", "floor"),
                "at least 0.4",
            ),
            (
                "all in one commit / best peer",
                own(bulk),
                self.best_peer(bulk),
                "at least 2",
            ),
            (
                "hit, beside a durable writer / alone",
                own(beside),
                own(alone),
                "at least 0.5",
            ),
            (
                "small commits, 16 processes / 1",
                of(many, "16 processes"),
                of(many, "1 process"),
                "at least 1",
            ),
            (
                "20 records a lazy commit / best peer",
                own(small),
                self.best_peer(small),
                "",
            ),
        ];
        for (name, above, below, goal) in rows {
            let (Some(above), Some(below)) = (above, below) else {
                continue;
            };
            let ratios = above.iter().zip(&below).map(|(above, below)| above / below);
            if let Some(spread) = Spread::of(ratios.collect()) {
                println!("{name:42} {spread}  {goal}");
            }
        }
    }
}
