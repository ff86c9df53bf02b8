//! Multi-turn prompts as lists of block numbers, made up with a seed.
//! Invariant: a block number stands for one content, and a turn begins with all blocks of the turn
//! before.

/// Requests of many conversations at a time. All share a system prompt and each turn adds a few
/// blocks. More than half of the conversations have one turn only, the others three to ten, with
/// pauses that vary widely.
pub(super) fn make(requests: usize, seed: u64) -> Vec<Vec<u64>> {
    let mut random = Xorshift(seed);
    let mut next_block = 8;
    let mut open: Vec<Dialogue> = Vec::new();
    let mut made = Vec::with_capacity(requests);
    while made.len() < requests {
        let mut conversation = if open.len() > 200 && random.below(100) < 55 {
            // Recent conversations go on more often than old ones.
            let back = random.below(open.len() as u64).min(random.below(open.len() as u64));
            open.remove(open.len() - 1 - back as usize)
        } else {
            Dialogue::start(&mut random)
        };
        for _ in 0..2 + random.below(20) {
            conversation.blocks.push(next_block);
            next_block += 1;
        }
        conversation.turns_left -= 1;
        made.push(conversation.blocks.clone());
        if conversation.turns_left > 0 {
            open.push(conversation);
        }
    }
    made
}

struct Dialogue {
    blocks: Vec<u64>,
    turns_left: u64,
}

impl Dialogue {
    fn start(random: &mut Xorshift) -> Self {
        let turns_left = if random.below(100) < 60 { 1 } else { 3 + random.below(8) };
        Self { blocks: (0..1 + random.below(3)).collect(), turns_left }
    }
}

struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}
