//! Who earned how much of what all have together: a cooperative game whose value is known for every subset of its players.
//!
//! What a player adds depends on who is there already. Alone on nothing and last to all the others are two answers, and neither adds
//! up to the whole. The Shapley value is the mean over all orders in which the players could come, and does. The price is a value of
//! every subset: 2^players of them. What rests on a value that is missing is missing.

/// The value of each subset of some players; bit `k` of a subset's number is player `k`.
#[derive(Clone, PartialEq, Debug)]
pub struct Game {
    players: usize,
    values: Vec<Option<f64>>,
}

impl Game {
    /// Of the values of all subsets, from that of none to that of the whole.
    ///
    /// # Panics
    /// There are not 2^players values.
    pub fn of(values: Vec<Option<f64>>) -> Self {
        assert!(values.len().is_power_of_two(), "a value for each subset");
        Self { players: values.len().trailing_zeros() as usize, values }
    }

    /// The values of all subsets.
    pub fn values(&self) -> &[Option<f64>] {
        &self.values
    }

    fn value(&self, subset: usize) -> Option<f64> {
        self.values[subset]
    }

    /// Value without any player.
    pub fn baseline(&self) -> Option<f64> {
        self.value(0)
    }

    /// Value with all players.
    pub fn whole(&self) -> Option<f64> {
        self.value(self.values.len() - 1)
    }

    /// What a player adds to a subset without it.
    fn added(&self, player: usize, subset: usize) -> Option<f64> {
        Some(self.value(subset | 1 << player)? - self.value(subset)?)
    }

    /// What a player adds to nothing.
    pub fn alone(&self, player: usize) -> Option<f64> {
        self.added(player, 0)
    }

    /// What a player adds to all the others: the whole loses as much without it.
    pub fn last(&self, player: usize) -> Option<f64> {
        self.added(player, (self.values.len() - 1) & !(1 << player))
    }

    /// What a player adds on average over all orders (Shapley 1953). Of n players' n! orders, s! (n - s - 1)! have exactly the s
    /// members of a subset before it.
    pub fn shapley(&self, player: usize) -> Option<f64> {
        let orders = factorial(self.players);
        let others = (0..self.values.len()).filter(|subset| subset >> player & 1 == 0);
        others
            .map(|subset| {
                let before = subset.count_ones() as usize;
                let share = factorial(before) * factorial(self.players - before - 1) / orders;
                Some(share * self.added(player, subset)?)
            })
            .sum()
    }

    /// What two players add together to nothing, less what each adds alone.
    pub fn interaction(&self, one: usize, other: usize) -> Option<f64> {
        let together = self.value(1 << one | 1 << other)? - self.baseline()?;
        Some(together - self.alone(one)? - self.alone(other)?)
    }
}

fn factorial(number: usize) -> f64 {
    (1..=number).map(|factor| factor as f64).product()
}
