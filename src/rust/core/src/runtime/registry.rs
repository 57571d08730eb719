//! The live objects of a client: they must release the plugin's objects before the client ends.

use pjrt_base::error::Result;
use pjrt_base::sync::Unpoisoned;
use pjrt_base::trace::Site;
use pjrt_data::array::Spec;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// An object of a client that holds a plugin's object.
pub(crate) trait Resource: Debug + Send + Sync {
    /// Releases the plugin's object. Later uses find nothing there.
    fn release(&self);

    /// Waits until its pending work is done; errors do not matter.
    ///
    /// # Errors
    /// `Interrupted`.
    fn wait_idle(self: Arc<Self>) -> Result<()> {
        Ok(())
    }

    /// Its array in device memory, if it has one.
    fn array(&self) -> Option<Arc<Spec>> {
        None
    }

    /// The same object, for those who know its type.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// The objects of one client.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<Slots>);

#[derive(Debug, Default)]
struct Slots {
    /// `None` is a free slot.
    objects: Vec<Option<Weak<dyn Resource>>>,
    free: Vec<usize>,
    /// The calls that made objects, by slot: of those that were made while a trace was recorded.
    sites: BTreeMap<usize, Arc<Site>>,
}

/// The number of an object's slot in its registry, from 1; 0 without a slot. Kept by the object.
#[derive(Debug, Default)]
pub(crate) struct Slot(AtomicUsize);

impl Registry {
    /// Adds a new object, and stores its slot.
    pub(crate) fn enter<T: Resource + 'static>(&self, object: &Arc<T>, slot: &Slot) {
        let entry: Weak<dyn Resource> = Arc::<T>::downgrade(object);
        let mut slots = self.slots();
        let at = slots.free.pop().unwrap_or_else(|| {
            slots.objects.push(None);
            slots.objects.len() - 1
        });
        slots.objects[at] = Some(entry);
        slot.0.store(at + 1, Ordering::Relaxed);
    }

    /// Removes an object that is being dropped.
    pub(crate) fn leave(&self, slot: &Slot) {
        let number = slot.0.swap(0, Ordering::Relaxed);
        if number > 0 {
            let mut slots = self.slots();
            slots.objects[number - 1] = None;
            slots.free.push(number - 1);
            slots.sites.remove(&number);
        }
    }

    /// Keeps the call that made an object until the object is dropped.
    pub(crate) fn set_site(&self, slot: &Slot, site: Arc<Site>) {
        let number = slot.0.load(Ordering::Relaxed);
        if number > 0 {
            self.slots().sites.insert(number, site);
        }
    }

    /// The call that made an object, if it is known.
    pub(crate) fn site(&self, slot: &Slot) -> Option<Arc<Site>> {
        self.slots().sites.get(&slot.0.load(Ordering::Relaxed)).cloned()
    }

    /// The live objects.
    pub(crate) fn all(&self) -> Vec<Arc<dyn Resource>> {
        self.slots().objects.iter().flatten().filter_map(Weak::upgrade).collect()
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().unpoisoned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicI32;

    /// Releasing it negates its value.
    #[derive(Debug)]
    struct Number(AtomicI32, Slot);

    impl Resource for Number {
        fn release(&self) {
            self.0.store(-self.0.load(Ordering::Relaxed), Ordering::Relaxed);
        }

        fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
            self
        }
    }

    #[test]
    fn objects_are_listed_until_they_leave_and_slots_are_reused() {
        let registry = Registry::default();
        let make = |value: i32| {
            let object = Arc::new(Number(AtomicI32::new(value), Slot::default()));
            registry.enter(&object, &object.1);
            object
        };
        let (first, second) = (make(1), make(2));
        assert_eq!(registry.all().len(), 2);
        registry.leave(&first.1);
        registry.leave(&first.1);
        assert_eq!(registry.all().len(), 1);
        let third = make(3);
        drop(second);
        registry.all().iter().for_each(|object| object.release());
        assert_eq!([&first, &third].map(|number| number.0.load(Ordering::Relaxed)), [1, -3]);
        assert_eq!(registry.slots().objects.len(), 2);
    }

    #[test]
    fn the_call_that_made_an_object_is_forgotten_with_it() {
        let registry = Registry::default();
        let object = Arc::new(Number(AtomicI32::new(1), Slot::default()));
        let site = Arc::new(Site::default());
        registry.set_site(&object.1, site.clone());
        assert_eq!(registry.site(&object.1), None);
        registry.enter(&object, &object.1);
        registry.set_site(&object.1, site.clone());
        assert_eq!(registry.site(&object.1), Some(site));
        registry.leave(&object.1);
        registry.enter(&object, &object.1);
        assert_eq!(registry.site(&object.1), None);
    }
}
