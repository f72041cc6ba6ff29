//! Two small graph structures over dense indices: adjacency lists in one array,
//! with strongly connected components; and disjoint sets.

/// Some lists of nodes, one after another.
pub struct Lists {
    nodes: Vec<u32>,
    ends: Vec<u32>,
}

impl Lists {
    /// No lists.
    pub fn new() -> Lists {
        Lists {
            nodes: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// The lists in order, from either end.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u32]> {
        (0..self.ends.len()).map(|index| {
            let start = match index {
                0 => 0,
                _ => self.ends[index - 1] as usize,
            };
            &self.nodes[start..self.ends[index] as usize]
        })
    }
}

/// A directed graph: the successors of node `n` are
/// `edges[starts[n]..starts[n + 1]]`.
pub struct Graph {
    starts: Vec<u32>,
    edges: Vec<u32>,
}

impl Graph {
    /// A graph of `nodes` nodes with the given edges (from, to).
    pub fn new(nodes: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Graph {
        let mut starts = vec![0u32; nodes + 1];
        for (from, _) in pairs.clone() {
            starts[from as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut edges = vec![0; starts[nodes] as usize];
        for (from, to) in pairs {
            let slot = &mut next[from as usize];
            edges[*slot as usize] = to;
            *slot += 1;
        }
        Graph { starts, edges }
    }

    /// The successors of a node.
    pub fn successors(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.edges[self.starts[node] as usize..self.starts[node + 1] as usize]
    }

    /// The strongly connected components, each as its nodes, successors before
    /// predecessors (Tarjan 1972, with a stack of its own instead of recursion, since
    /// an object file may chain any number of sections).
    pub fn components(&self) -> Lists {
        const UNSEEN: u32 = u32::MAX;
        let count = self.starts.len() - 1;
        let mut index = vec![UNSEEN; count];
        let mut low = vec![0u32; count];
        let mut on_stack = vec![false; count];
        let mut stack: Vec<u32> = Vec::new();
        let mut calls: Vec<(u32, usize)> = Vec::new();
        let mut next = 0;
        let mut components = Lists::new();
        for root in 0..count as u32 {
            if index[root as usize] != UNSEEN {
                continue;
            }
            calls.push((root, 0));
            while let Some((node, child)) = calls.pop() {
                let at = node as usize;
                if child == 0 {
                    index[at] = next;
                    low[at] = next;
                    next += 1;
                    stack.push(node);
                    on_stack[at] = true;
                } else {
                    let done = self.successors(node)[child - 1] as usize;
                    low[at] = low[at].min(low[done]);
                }
                let rest = &self.successors(node)[child..];
                let mut descend = None;
                for (step, &successor) in rest.iter().enumerate() {
                    let to = successor as usize;
                    if index[to] == UNSEEN {
                        descend = Some((child + step + 1, successor));
                        break;
                    }
                    if on_stack[to] {
                        low[at] = low[at].min(index[to]);
                    }
                }
                if let Some((resume, successor)) = descend {
                    calls.push((node, resume));
                    calls.push((successor, 0));
                    continue;
                }
                if low[at] == index[at] {
                    while let Some(member) = stack.pop() {
                        on_stack[member as usize] = false;
                        components.nodes.push(member);
                        if member == node {
                            break;
                        }
                    }
                    components.ends.push(components.nodes.len() as u32);
                }
            }
        }
        components
    }
}

/// Disjoint sets of dense indices; the representative is the least member.
pub struct Sets {
    parent: Vec<u32>,
}

impl Sets {
    /// `count` sets of one member each.
    pub fn new(count: usize) -> Sets {
        Sets {
            parent: (0..count as u32).collect(),
        }
    }

    /// The representative of `member`'s set.
    pub fn find(&mut self, mut member: u32) -> u32 {
        while self.parent[member as usize] != member {
            let above = self.parent[self.parent[member as usize] as usize];
            self.parent[member as usize] = above;
            member = above;
        }
        member
    }

    /// Makes one set of two.
    pub fn union(&mut self, one: u32, other: u32) {
        let (one, other) = (self.find(one), self.find(other));
        self.parent[one.max(other) as usize] = one.min(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_come_successors_first() {
        // 0 → 1 ⇄ 2 → 3, 4 → 4
        let pairs = [(0, 1), (1, 2), (2, 1), (2, 3), (4, 4)];
        let components = Graph::new(5, pairs.into_iter()).components();
        let mut components: Vec<Vec<u32>> = components.iter().map(<[u32]>::to_vec).collect();
        components.iter_mut().for_each(|component| component.sort());
        assert_eq!(components, [vec![3], vec![1, 2], vec![0], vec![4]]);
    }

    #[test]
    fn a_long_chain_does_not_exhaust_the_stack() {
        let count = 300_000;
        let graph = Graph::new(count as usize, (0..count - 1).map(|node| (node, node + 1)));
        assert_eq!(graph.components().iter().count(), count as usize);
    }

    #[test]
    fn sets() {
        let mut sets = Sets::new(4);
        sets.union(3, 2);
        sets.union(0, 3);
        assert_eq!(sets.find(2), 0);
        assert_eq!(sets.find(1), 1);
    }
}
