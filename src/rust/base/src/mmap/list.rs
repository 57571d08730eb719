//! A list that a signal handler can read at any time: items are added, and never removed.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

#[derive(Debug)]
pub(super) struct List<T> {
    first: AtomicPtr<Node<T>>,
}

#[derive(Debug)]
struct Node<T> {
    item: T,
    next: AtomicPtr<Node<T>>,
}

impl<T: Sync + 'static> List<T> {
    pub(super) const fn new() -> List<T> {
        List { first: AtomicPtr::new(null_mut()) }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'static T> {
        let at = |node: *mut Node<T>| {
            // SAFETY: nodes are never freed.
            unsafe { node.as_ref::<'static>() }
        };
        let nodes = std::iter::successors(at(self.first.load(Ordering::Acquire)), move |node| {
            at(node.next.load(Ordering::Acquire))
        });
        nodes.map(|node| &node.item)
    }

    pub(super) fn add(&self, item: T) -> &'static T {
        let node = Box::leak(Box::new(Node { item, next: AtomicPtr::new(self.first.load(Ordering::Acquire)) }));
        let node: &'static Node<T> = node;
        let add = |first| {
            node.next.store(first, Ordering::Release);
            Some(&raw const *node as *mut Node<T>)
        };
        // The closure always returns a value.
        let _ = self.first.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        &node.item
    }
}
