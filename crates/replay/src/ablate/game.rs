//! Divides a joint gain among its contributors: a cooperative game whose value is known for every subset of its
//! players.
//!
//! How much a player adds depends on which players are present already. Its value alone, and its value when added last
//! to all the others, are two answers, and neither adds up to the whole. The Shapley value is the mean over all orders
//! in which the players can be added, and does add up. The price is that the value of every subset is needed: 2^players
//! of them. A result that needs a missing value is missing too.

/// A cooperative game: the value of each subset of its players. In an ablation the players are content mechanisms, and
/// the value is a figure of the run with these mechanisms. Bit `k` of a subset's number is player `k`.
#[derive(Clone, PartialEq, Debug)]
pub struct CooperativeGame {
    /// Number of players (in an ablation: of content mechanisms).
    player_count: usize,
    /// Value of each subset of the players; the index is the number of the subset.
    values_by_subset: Vec<Option<f64>>,
}

impl CooperativeGame {
    /// Creates a game from the values of all subsets, in the order of their numbers: from the empty subset to the
    /// whole.
    ///
    /// # Panics
    /// Panics if the number of values is not a power of two.
    pub fn of_subset_values(values_by_subset: Vec<Option<f64>>) -> Self {
        assert!(values_by_subset.len().is_power_of_two(), "a value for each subset");
        Self { player_count: values_by_subset.len().trailing_zeros() as usize, values_by_subset }
    }

    /// Returns the values of all subsets of the players, in the order of the subsets' numbers.
    pub fn subset_values(&self) -> &[Option<f64>] {
        &self.values_by_subset
    }

    /// Returns the value of the subset of players with number `subset`; `None` if it is unknown.
    fn subset_value(&self, subset: usize) -> Option<f64> {
        self.values_by_subset[subset]
    }

    /// Returns the figure of the run without any of the mechanisms (in the game of Shapley values: without players);
    /// `None` if that run has no result.
    pub fn empty_subset_value(&self) -> Option<f64> {
        self.subset_value(0)
    }

    /// Returns the figure of the run with all mechanisms (players) together; `None` if that run has no result.
    pub fn full_subset_value(&self) -> Option<f64> {
        self.subset_value(self.values_by_subset.len() - 1)
    }

    /// Returns how much a player adds to the value of a subset of the other players.
    fn gain_when_added_to_subset(&self, player: usize, subset: usize) -> Option<f64> {
        Some(self.subset_value(subset | 1 << player)? - self.subset_value(subset)?)
    }

    /// Returns how much a player adds to the value of the empty subset.
    pub fn gain_alone(&self, player: usize) -> Option<f64> {
        self.gain_when_added_to_subset(player, 0)
    }

    /// Returns how much a player adds to the value of all other players: what the value of all players loses without
    /// this player.
    pub fn gain_when_added_to_all_others(&self, player: usize) -> Option<f64> {
        self.gain_when_added_to_subset(player, (self.values_by_subset.len() - 1) & !(1 << player))
    }

    /// Returns how much a player adds on average over all orders (Shapley 1953). Of the n! orders of n players, s! (n -
    /// s - 1)! have exactly the s members of a given subset before the player.
    pub fn shapley_value(&self, player: usize) -> Option<f64> {
        let orders = factorial(self.player_count);
        let others = (0..self.values_by_subset.len()).filter(|subset| subset >> player & 1 == 0);
        others
            .map(|subset| {
                let before = subset.count_ones() as usize;
                let share = factorial(before) * factorial(self.player_count - before - 1) / orders;
                Some(share * self.gain_when_added_to_subset(player, subset)?)
            })
            .sum()
    }

    /// Returns the interaction of two players: how much both together add to the empty subset, less what each adds
    /// alone.
    pub fn player_interaction(&self, one: usize, other: usize) -> Option<f64> {
        let together = self.subset_value(1 << one | 1 << other)? - self.empty_subset_value()?;
        Some(together - self.gain_alone(one)? - self.gain_alone(other)?)
    }
}

/// Returns the factorial of `number`.
fn factorial(number: usize) -> f64 {
    (1..=number).map(|factor| factor as f64).product()
}
