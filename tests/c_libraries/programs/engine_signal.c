/* Waits for a signal after enableGracefulShutdown(); another thread or the exit must end the engine. */
#include <unistd.h>

#include "check.h"
#include "transfer_engine_c.h"

int main(void) {
    transfer_engine_t engine = createTransferEngine("P2PHANDSHAKE", "127.0.0.1", "", 0, 0);
    CHECK(engine != NULL);
    enableGracefulShutdown(engine);
    enableGracefulShutdown(engine);
    puts("waiting");
    fflush(stdout);
    for (time_t end = deadline(); time(NULL) < end;) pause_a_moment();
    return 3;
}
