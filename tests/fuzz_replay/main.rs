//! Every input that ever troubled a decoder, and the seeds of the fuzzers, on every test run.
//! Invariant: each decoder has a corpus, and a new crash is fixed by adding its input here.

#[cfg(test)]
mod replay;
