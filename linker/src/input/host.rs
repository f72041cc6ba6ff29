//! The program around a link: how many threads it starts, and how it ends, is its own matter. A test or a fuzzer
//! that links many times in one process does other things at these moments than `repo-ld`.

use std::os::fd::RawFd;

/// What the program that links wants to do meanwhile.
pub trait Host: Sync {
    /// It is known how much work there is: about so many bytes of inputs. No threads have been used so far,
    /// unless this is not the first time: a link can be done again without what it could not keep to.
    fn opened(&self, bytes: u64);

    /// Does what nobody need wait for: if the program can, beside what it does next, in a process of its own, in which all
    /// descriptors are closed but `kept`.
    fn apart(&self, _kept: RawFd, work: &mut (dyn FnMut() + Send)) {
        work();
    }

    /// The output is complete and all reports are made. A program that has nothing else to do ends here, and need not
    /// return the memory of a large link piece by piece.
    fn finished(&self);
}
