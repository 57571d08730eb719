//! The objects of a client that somebody still has: what they hold of the plugin must be gone before the client is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Objects of one kind.
#[derive(Debug)]
pub(crate) struct Registry<T>(Mutex<Slots<T>>);

#[derive(Debug)]
struct Slots<T> {
    /// Empty references are free places.
    objects: Vec<Weak<T>>,
    free: Vec<usize>,
}

/// Where an object stands in its registry; kept by the object.
#[derive(Debug)]
pub(crate) struct Place(AtomicUsize);

impl Place {
    const NONE: usize = usize::MAX;
}

impl Default for Place {
    fn default() -> Self {
        Place(AtomicUsize::new(Place::NONE))
    }
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Registry(Mutex::new(Slots { objects: Vec::new(), free: Vec::new() }))
    }
}

impl<T> Registry<T> {
    /// Enters an object that was just made, and notes its place.
    pub(crate) fn enter(&self, object: &Arc<T>, place: &Place) {
        let entry = Arc::downgrade(object);
        let mut slots = self.slots();
        let free = slots.free.pop();
        let at = match free {
            Some(at) => {
                slots.objects[at] = entry;
                at
            }
            None => {
                slots.objects.push(entry);
                slots.objects.len() - 1
            }
        };
        place.0.store(at, Ordering::Relaxed);
    }

    /// Takes an object out that is being dropped.
    pub(crate) fn leave(&self, place: &Place) {
        let at = place.0.swap(Place::NONE, Ordering::Relaxed);
        if at != Place::NONE {
            let mut slots = self.slots();
            slots.objects[at] = Weak::new();
            slots.free.push(at);
        }
    }

    /// The objects that somebody has.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.slots().objects.iter().filter_map(Weak::upgrade).collect()
    }

    fn slots(&self) -> MutexGuard<'_, Slots<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_there_until_they_leave_and_places_are_used_again() {
        let registry = Registry::default();
        let make = |value: i32| {
            let object = Arc::new((value, Place::default()));
            registry.enter(&object, &object.1);
            object
        };
        let values = || {
            let mut values: Vec<i32> = registry.all().iter().map(|object| object.0).collect();
            values.sort_unstable();
            values
        };
        let (first, second) = (make(1), make(2));
        assert_eq!(values(), [1, 2]);
        registry.leave(&first.1);
        registry.leave(&first.1);
        assert_eq!(values(), [2]);
        let _third = make(3);
        assert_eq!(values(), [2, 3]);
        drop(second);
        assert_eq!(values(), [3]);
        assert_eq!(registry.slots().objects.len(), 2);
    }
}
