//! Work on one thing after another that several threads do, and what comes of it in the order of the things.
//!
//! What is done with that takes time as well, and not the same each time: a writer of a file waits for the system now and then. So the things are
//! handed out in *batches*, and of each thread a few may be ready: enough to go on meanwhile, and not too much to remember.

use anyhow::{Context, Result};
use format_spec::ids::Address;
use std::ops::Range;
use std::sync::mpsc::sync_channel;
use store::program::Programs;

/// A batch is of so many compilations at most, or so many bytes as they are recorded.
const MOST: usize = 32;
const BYTES: u64 = 64 << 10;

/// So many batches of each thread may be ready.
const AHEAD: usize = 4;

/// Compilations in batches, each as a range of their numbers.
pub(crate) fn batches(programs: &Programs<'_>, order: &[Address]) -> Vec<Range<usize>> {
    let snapshot = programs.snapshot();
    let (mut all, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (number, &address) in order.iter().enumerate() {
        // What is damaged is found when it is read.
        bytes += snapshot
            .record_at(address)
            .map_or(0, |record| record.size());
        if bytes >= BYTES || number + 1 - start >= MOST || number + 1 == order.len() {
            all.push(start..number + 1);
            (start, bytes) = (number + 1, 0);
        }
    }
    all
}

/// Has `threads` threads work on the batches, each with a worker of its own, and `take` take the results in the order of the batches, in this thread.
///
/// # Errors
/// `take`'s; then the others are told to end.
pub(crate) fn fold<W, T, S>(
    batches: &[Range<usize>],
    threads: usize,
    worker: impl Fn() -> W + Sync,
    mut state: S,
    mut take: impl FnMut(S, T) -> Result<S>,
) -> Result<S>
where
    W: FnMut(Range<usize>) -> T,
    T: Send,
{
    if threads <= 1 {
        let mut work = worker();
        for batch in batches {
            state = take(state, work(batch.clone()))?;
        }
        return Ok(state);
    }
    let worker = &worker;
    std::thread::scope(|scope| {
        let receivers: Vec<_> = (0..threads.min(batches.len()))
            .map(|thread| {
                let (sender, receiver) = sync_channel(AHEAD);
                scope.spawn(move || {
                    let mut work = worker();
                    for batch in batches.iter().skip(thread).step_by(threads) {
                        if sender.send(work(batch.clone())).is_err() {
                            // Nobody wants more: there was an error.
                            break;
                        }
                    }
                });
                receiver
            })
            .collect();
        for (_, receiver) in batches.iter().zip(receivers.iter().cycle()) {
            let result = receiver.recv().context("a thread has ended early")?;
            state = take(state, result)?;
        }
        Ok(state)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    fn tens(count: usize) -> Vec<Range<usize>> {
        (0..count)
            .map(|batch| batch * 10..batch * 10 + 10)
            .collect()
    }

    #[test]
    fn results_come_in_order() {
        for (threads, count) in [(1, 7), (3, 0), (3, 1), (3, 2), (3, 50), (16, 20)] {
            let worker = || |batch: Range<usize>| batch.collect::<Vec<_>>();
            let all = fold(
                &tens(count),
                threads,
                worker,
                Vec::new(),
                |mut all, part| {
                    all.extend(part);
                    Ok(all)
                },
            );
            let wanted: Vec<usize> = (0..count * 10).collect();
            assert_eq!(all.expect("no error"), wanted, "{threads} threads");
        }
    }

    #[test]
    fn an_error_ends_all() {
        for threads in [1, 4] {
            let worker = || |batch: Range<usize>| batch.start;
            let found = fold(&tens(1000), threads, worker, (), |(), start| match start {
                300 => bail!("at {start}"),
                _ => Ok(()),
            });
            assert_eq!(found.expect_err("one").to_string(), "at 300");
        }
    }
}
