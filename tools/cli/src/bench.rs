//! `perigee bench` and `transfer_engine_bench`. Invariant: the tools live in the runner; this hands
//! them words and standard output.

use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::output;
use perigee_flags::ProcessEnvironment;

/// Mooncake's name of its bench program.
pub(crate) const TRANSFER_ENGINE_BENCH: &str = "transfer_engine_bench";

/// Runs one tool.
pub(crate) fn run(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    let arguments = &invocation.arguments;
    let mut print = |text: &str| output::print(text);
    let ended = if invocation.program == TRANSFER_ENGINE_BENCH {
        perigee_bench::transfer_engine_bench(arguments, environment, &mut print)
    } else {
        perigee_bench::execute(arguments, environment, &mut print)
    };
    Ok(ended?)
}
