// SPDX-License-Identifier: GPL-2.0-only

//! The clients of a device, and whose task is next.
//!
//! Anyone who may open the node can make many clients, and others must not pay for them. A client is therefore found in
//! logarithmic time, its memory is a separate allocation that is accounted to the process that opened the file, and the search
//! for the next task looks only at clients whose first task may run.

use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    }, //
};

use super::{
    job::{
        Job,
        Jobs, //
    },
    queue::Queue, //
};

/// How many clients are looked at under one lock, when a fence has signalled and for the next task.
const AT_ONCE: usize = 64;

/// A client's queue by its number.
type Queues = RBTree<u64, Queue>;

/// The memory of a client that is about to be added or has been removed.
pub(crate) type Node = RBTreeNode<u64, Queue>;

/// The clients of a device, by number. Each is in one of four trees; a client moves between them without an allocation.
pub(crate) struct Clients {
    /// Clients without tasks.
    idle: Queues,
    /// Clients whose first task waits for fences.
    blocked: Queues,
    /// Clients whose first task may run.
    ready: Queues,
    /// Those of them whose first task is urgent.
    urgent: Queues,
    /// The number from which the search for the next task begins.
    turn: u64,
}

impl Clients {
    pub(crate) fn new() -> Self {
        Self { idle: RBTree::new(), blocked: RBTree::new(), ready: RBTree::new(), urgent: RBTree::new(), turn: 0 }
    }

    /// A client that can be added without an allocation.
    pub(crate) fn node(client: u64) -> Result<Node> {
        RBTreeNode::new(client, Queue::new()?, GFP_KERNEL_ACCOUNT)
    }

    /// All trees.
    fn trees(&mut self) -> [&mut Queues; 4] {
        [&mut self.urgent, &mut self.ready, &mut self.blocked, &mut self.idle]
    }

    /// Adds a client. Its number is new.
    pub(crate) fn add(&mut self, node: Node) {
        self.idle.insert(node);
    }

    /// Takes a client out with all its tasks, for the caller to drop without a lock.
    pub(crate) fn remove(&mut self, client: u64) -> Option<Node> {
        self.trees().into_iter().find_map(|tree| tree.remove_node(&client))
    }

    /// A client's queue.
    pub(crate) fn queue(&mut self, client: u64) -> Option<&mut Queue> {
        self.trees().into_iter().find_map(|tree| tree.get_mut(&client))
    }

    /// All clients.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&u64, &Queue)> {
        [&self.urgent, &self.ready, &self.blocked, &self.idle].into_iter().flatten()
    }

    /// Queues tasks, for which the client's queue has room, and returns the number of the last.
    pub(crate) fn push(&mut self, client: u64, jobs: Jobs) -> Result<u64> {
        let queue = self.queue(client).ok_or(ENODEV)?;
        let was_idle = queue.len() == 0;
        let mut jobs = jobs.reversed();
        while let Some(job) = jobs.pop() {
            queue.push(job);
        }
        let sequence = queue.submitted;
        if was_idle {
            self.sort(client);
        }
        Ok(sequence)
    }

    /// Takes the next task: the first of the next client in turn that has one that may run, an urgent one if there are any. A client
    /// whose last tasks hung loses as many turns, if others have tasks.
    pub(crate) fn next(&mut self) -> Option<KBox<Job>> {
        let (mut first, mut looks) = (None, 0);
        let tree = if self.urgent.is_empty() { &mut self.ready } else { &mut self.urgent };
        let client = loop {
            let cursor = tree.cursor_lower_bound(&self.turn).or_else(|| tree.cursor_front())?;
            let client = *cursor.current().0;
            self.turn = client.saturating_add(1);
            looks += 1;
            let skipped = tree.get_mut(&client)?.loses_turn();
            if !skipped || first == Some(client) || looks == AT_ONCE {
                break client;
            }
            first.get_or_insert(client);
        };
        let job = tree.get_mut(&client)?.pop();
        self.sort(client);
        job
    }

    /// Finds the clients whose tasks have waited for a fence that has signalled, among a few from the number `from` on. Returns
    /// the number to go on from, or `None` at the end.
    pub(crate) fn unblock(&mut self, mut from: u64) -> Option<u64> {
        for _ in 0..AT_ONCE {
            let cursor = self.blocked.cursor_lower_bound(&from)?;
            let (&client, queue) = cursor.current();
            from = client.checked_add(1)?;
            if queue.is_ready() {
                self.sort(client);
            }
        }
        Some(from)
    }

    /// Gives `end` each client that has tasks; it must take them all.
    pub(crate) fn end_all(&mut self, mut end: impl FnMut(&mut Queue)) {
        for tree in [&mut self.urgent, &mut self.ready, &mut self.blocked] {
            while let Some(mut cursor) = tree.cursor_front_mut() {
                end(cursor.current_mut().1);
                self.idle.insert(cursor.remove_current().1);
            }
        }
    }

    /// Puts a client into the tree that is right for its first task.
    fn sort(&mut self, client: u64) {
        let Some(queue) = self.queue(client) else { return };
        let (is_idle, is_ready, is_urgent) = (queue.len() == 0, queue.is_ready(), queue.is_urgent());
        let Some(node) = self.remove(client) else { return };
        let tree = match (is_idle, is_ready, is_urgent) {
            (true, ..) => &mut self.idle,
            (false, true, true) => &mut self.urgent,
            (false, true, false) => &mut self.ready,
            (false, false, _) => &mut self.blocked,
        };
        tree.insert(node);
    }
}
