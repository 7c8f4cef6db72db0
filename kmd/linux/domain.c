// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a client's tasks can access behind an IOMMU: a domain of the client, which is attached to the
 * device while they run.
 *
 * The domain is a part of the one that the DMA API uses for the device: it has the buffers of which
 * the client has a handle or a task, at the same addresses. Therefore a buffer has one address, no
 * addresses are allocated here, and another driver's buffer needs no second attachment.
 *
 * A domain is attached on the way to a fence's signal, for which reclaim may wait. The attachment's own
 * allocations do not wait for reclaim. It takes the mutex of the device's IOMMU group, and some IOMMUs
 * take a lock of all their groups, under which others allocate memory for a moment: a reader of the
 * group's reserved_regions in sysfs, an attachment of another device. Lockdep would report that, so
 * nvdla_domain_attach() is called without a lock of the driver and outside of the sections that lockdep
 * checks.
 */

#include <linux/device.h>
#include <linux/dma-map-ops.h>
#include <linux/iommu.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/msi.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/xarray.h>
#include <drm/drm_device.h>
#include <drm/drm_drv.h>

#include "helpers.h"

struct nvdla_domain {
	struct kref references; /* the client's and those of its tasks' buffers */
	struct list_head entry; /* in the space's list */
	struct nvdla_space *space;
	/*
	 * The granule of the IOMMU's addresses, as a shift. The DMA API gives each mapping whole
	 * granules, which may be smaller or larger than the processor's pages.
	 */
	unsigned int shift;
	struct mutex lock; /* protects what follows; memory is allocated under it */
	bool ended; /* the device is not bound any more */
	struct xarray views; /* by the number of the first granule */
	/* Both change under the attachment's lock. NULL before the first buffer and at the end. */
	struct iommu_domain *domain;
	unsigned long attachments; /* how often it was attached */
};

/* A buffer in a domain. */
struct nvdla_view {
	size_t length; /* bytes of its granules */
	unsigned long users; /* handles, and entries of tasks' address lists */
};

static int nvdla_count_device(struct device *dev, void *count)
{
	(*(unsigned int *)count)++;
	return 0;
}

/*
 * Whether the IOMMU maps memory in a domain that was never attached. Some make the tables of a domain
 * when it is attached, and set its greatest address with them.
 */
static bool nvdla_try_domain(struct device *dev)
{
	struct iommu_domain *domain = iommu_paging_domain_alloc(dev);
	size_t granule;
	int ret;

	if (IS_ERR(domain))
		return false;
	granule = 1UL << __ffs(domain->pgsize_bitmap);
	ret = domain->geometry.aperture_end ? 0 : -ENODEV;
	if (!ret) {
		u64 at = ALIGN(domain->geometry.aperture_start, granule);

		/* What is mapped does not matter, because the domain is never attached. */
		ret = iommu_map(domain, at, ALIGN_DOWN(page_to_phys(ZERO_PAGE(0)), granule), granule,
				IOMMU_READ, GFP_KERNEL);
		if (!ret)
			iommu_unmap(domain, at, granule);
	}
	iommu_domain_free(domain);
	if (ret)
		dev_info(dev, "the IOMMU maps memory in attached domains only, so all clients share one\n");
	return !ret;
}

/* Whether clients of a device can have domains: an IOMMU translates its addresses, and its alone. */
bool nvdla_domains_are_possible(struct device *dev)
{
	struct iommu_group *group = iommu_group_get(dev);
	unsigned int count = 0;

	if (!group)
		return false;
	iommu_group_for_each_dev(group, &count, nvdla_count_device);
	iommu_group_put(group);
	if (count > 1)
		dev_info(dev, "shares its IOMMU group, so all clients share one domain\n");
	return count == 1 && nvdla_try_domain(dev);
}

/* The domain of a new client. NULL if clients have none of their own. */
struct nvdla_domain *nvdla_domain_create(struct drm_device *drm)
{
	struct nvdla_domain *domain = NULL;
	struct nvdla_space *space;
	int index;

	if (!drm_dev_enter(drm, &index))
		return ERR_PTR(-ENODEV);
	space = nvdla_space_of(drm_dev_dma_dev(drm));
	if (!space || !space->common)
		goto out;
	domain = kzalloc_obj(*domain, GFP_KERNEL_ACCOUNT);
	if (!domain) {
		domain = ERR_PTR(-ENOMEM);
		goto out;
	}
	kref_init(&domain->references);
	mutex_init(&domain->lock);
	xa_init(&domain->views);
	kref_get(&space->references);
	domain->space = space;
	domain->shift = __ffs(space->common->pgsize_bitmap);
	scoped_guard(mutex, &space->lock) {
		domain->ended = READ_ONCE(space->gone);
		list_add(&domain->entry, &space->domains);
	}
out:
	drm_dev_exit(index);
	return domain;
}

void nvdla_domain_get(struct nvdla_domain *domain)
{
	kref_get(&domain->references);
}

/* The device accesses all buffers again. The attachment is locked. */
static void nvdla_domain_detach(struct nvdla_space *space)
{
	if (!space->attached)
		return;
	/* Unlike iommu_detach_device() also if the group has got another device meanwhile. */
	iommu_detach_group(space->attached->domain, space->dev->iommu_group);
	WRITE_ONCE(space->attached, NULL);
}

/*
 * Ends the domain of a client without tasks, or of a device that is about to be unbound. The space is
 * locked, so the device stays bound meanwhile.
 */
static void nvdla_domain_end(struct nvdla_domain *domain)
{
	struct nvdla_space *space = domain->space;
	struct iommu_domain *old;
	struct nvdla_view *view;
	unsigned long index;

	guard(mutex)(&domain->lock);
	if (domain->ended)
		return;
	domain->ended = true;
	old = domain->domain;
	if (!old)
		return;
	scoped_guard(mutex, &space->attachment) {
		unsigned int flags = memalloc_noreclaim_save();

		if (space->attached == domain)
			nvdla_domain_detach(space);
		domain->domain = NULL;
		memalloc_noreclaim_restore(flags);
	}
	xa_for_each(&domain->views, index, view)
		iommu_unmap(old, (u64)index << domain->shift, view->length);
	iommu_domain_free(old);
}

/* The device is about to be unbound, and does not access memory any more. The space is locked. */
void nvdla_domains_end(struct nvdla_space *space)
{
	struct nvdla_domain *domain;

	list_for_each_entry(domain, &space->domains, entry)
		nvdla_domain_end(domain);
}

static void nvdla_domain_release(struct kref *references)
{
	struct nvdla_domain *domain = container_of(references, struct nvdla_domain, references);
	struct nvdla_space *space = domain->space;

	scoped_guard(mutex, &space->lock) {
		list_del(&domain->entry);
		nvdla_domain_end(domain);
	}
	WARN_ON_ONCE(!xa_empty(&domain->views));
	xa_destroy(&domain->views);
	mutex_destroy(&domain->lock);
	nvdla_space_put(space);
	kfree(domain);
}

/* Sleeps. Not called on the way to a fence's signal. */
void nvdla_domain_put(struct nvdla_domain *domain)
{
	kref_put(&domain->references, nvdla_domain_release);
}

/*
 * Maps what the device's common domain has in some granules, up to the one before `end`. The domain is
 * locked.
 */
static int nvdla_domain_map(struct nvdla_domain *domain, u64 start, u64 end, int prot)
{
	struct iommu_domain *common = domain->space->common;
	u64 granule = 1ULL << domain->shift;
	phys_addr_t phys;
	u64 at, length;
	int ret = 0;

	for (at = start; at < end; at += length) {
		phys = iommu_iova_to_phys(common, at);
		length = granule;
		while (phys && at + length < end &&
		       iommu_iova_to_phys(common, at + length) == phys + length)
			length += granule;
		ret = phys ? iommu_map(domain->domain, at, phys, length, prot,
				       GFP_KERNEL_ACCOUNT | __GFP_NOWARN) :
			     -EFAULT;
		if (ret)
			break;
		cond_resched();
	}
	if (ret && at > start)
		iommu_unmap(domain->domain, start, at - start);
	return ret;
}

/*
 * Maps the page that the device writes to raise an interrupt, where the IOMMU translates that, as on
 * Arm.
 */
static int nvdla_domain_map_doorbell(struct nvdla_domain *domain)
{
#ifdef CONFIG_PCI_MSI
	struct nvdla_space *space = domain->space;
	struct msi_msg message;
	struct pci_dev *pdev;
	u64 granule = 1ULL << domain->shift;
	u64 at;

	if (!dev_is_pci(space->dev))
		return 0;
	pdev = to_pci_dev(space->dev);
	if (!pdev->msi_enabled && !pdev->msix_enabled)
		return 0;
	get_cached_msi_msg(pci_irq_vector(pdev, 0), &message);
	at = ((u64)message.address_hi << 32 | message.address_lo) & ~(granule - 1);
	if (iommu_iova_to_phys(space->common, at))
		return nvdla_domain_map(domain, at, at + granule,
					IOMMU_WRITE | IOMMU_NOEXEC | IOMMU_MMIO);
#endif
	return 0;
}

/* Makes the IOMMU's part of a domain. The domain is locked. */
static int nvdla_domain_begin(struct nvdla_domain *domain)
{
	struct nvdla_space *space = domain->space;
	struct iommu_domain *new = iommu_paging_domain_alloc(space->dev);
	int ret;

	if (IS_ERR(new))
		return PTR_ERR(new);
	scoped_guard(mutex, &space->attachment)
		domain->domain = new;
	ret = nvdla_domain_map_doorbell(domain);
	if (!ret)
		return 0;
	scoped_guard(mutex, &space->attachment)
		domain->domain = NULL;
	iommu_domain_free(new);
	return ret;
}

/* The granules of a memory: the first, and the one after the last. */
static u64 nvdla_view_start(const struct nvdla_domain *domain, const struct nvdla_memory *memory)
{
	return memory->dma_address >> domain->shift;
}

static u64 nvdla_view_end(const struct nvdla_domain *domain, const struct nvdla_memory *memory)
{
	return ((memory->dma_address + memory->size - 1) >> domain->shift) + 1;
}

/*
 * Maps a memory in a domain. The domain is locked. The driver of virtio's IOMMU forgets what is mapped
 * while the domain is being attached, so the mapping is then repeated.
 */
static int nvdla_view_map(struct nvdla_domain *domain, u64 start, size_t length)
{
	bool coherent = dev_is_dma_coherent(domain->space->dev);
	int prot = IOMMU_READ | IOMMU_WRITE | IOMMU_NOEXEC | (coherent ? IOMMU_CACHE : 0);
	struct mutex *attachment = &domain->space->attachment;
	unsigned long count;
	int ret;

	scoped_guard(mutex, attachment)
		count = domain->attachments;
	for (;;) {
		ret = nvdla_domain_map(domain, start, start + length, prot);
		if (ret)
			return ret;
		guard(mutex)(attachment);
		if (count == domain->attachments)
			return 0;
		count = domain->attachments;
		iommu_unmap(domain->domain, start, length);
		/* Only the client's own tasks can go on forever. */
		if (fatal_signal_pending(current))
			return -EINTR;
	}
}

/* Makes a memory a part of a domain. The domain is locked. */
static struct nvdla_view *nvdla_view_create(struct nvdla_domain *domain,
					    const struct nvdla_memory *memory)
{
	u64 start = nvdla_view_start(domain, memory);
	struct nvdla_view *view;
	int ret = domain->domain ? 0 : nvdla_domain_begin(domain);

	if (ret)
		return ERR_PTR(ret);
	view = kzalloc_obj(*view, GFP_KERNEL_ACCOUNT);
	if (!view)
		return ERR_PTR(-ENOMEM);
	view->length = (nvdla_view_end(domain, memory) - start) << domain->shift;
	ret = xa_insert(&domain->views, start, view, GFP_KERNEL_ACCOUNT);
	if (ret) {
		kfree(view);
		return ERR_PTR(ret);
	}
	ret = nvdla_view_map(domain, start << domain->shift, view->length);
	if (ret) {
		xa_erase(&domain->views, start);
		kfree(view);
		return ERR_PTR(ret);
	}
	return view;
}

/*
 * A client has one more handle of a memory, or a task with it. Sleeps, and allocates memory. The SRAM
 * is not behind the IOMMU.
 */
int nvdla_domain_add(struct nvdla_domain *domain, const struct nvdla_memory *memory)
{
	struct nvdla_view *view;

	if (memory->block)
		return 0;
	guard(mutex)(&domain->lock);
	if (domain->ended)
		return -ENODEV;
	view = xa_load(&domain->views, nvdla_view_start(domain, memory));
	if (!view)
		view = nvdla_view_create(domain, memory);
	if (IS_ERR(view))
		return PTR_ERR(view);
	/* One exporter may give two of its buffers overlapping addresses. */
	if (view->length != (nvdla_view_end(domain, memory) - nvdla_view_start(domain, memory))
				    << domain->shift)
		return -EBUSY;
	view->users++;
	return 0;
}

/* The opposite. */
void nvdla_domain_remove(struct nvdla_domain *domain, const struct nvdla_memory *memory)
{
	u64 start = nvdla_view_start(domain, memory);
	struct nvdla_view *view;

	if (memory->block)
		return;
	guard(mutex)(&domain->lock);
	view = xa_load(&domain->views, start);
	if (WARN_ON_ONCE(!view) || --view->users)
		return;
	xa_erase(&domain->views, start);
	if (domain->domain) {
		/* Not while it is being attached, for virtio's IOMMU. */
		guard(mutex)(&domain->space->attachment);
		iommu_unmap(domain->domain, start << domain->shift, view->length);
	}
	kfree(view);
}

/* Whether the device accesses memory through that domain. */
bool nvdla_domain_is_attached(const struct nvdla_domain *domain)
{
	return READ_ONCE(domain->space->attached) == domain;
}

/*
 * Attaches a domain to the device, which runs no task. The caller prevents that another is attached
 * before its task has ended.
 */
int nvdla_domain_attach(struct nvdla_domain *domain)
{
	struct nvdla_space *space = domain->space;
	unsigned int flags = memalloc_noreclaim_save();
	int ret = 0;

	scoped_guard(mutex, &space->attachment) {
		if (space->attached != domain) {
			nvdla_domain_detach(space);
			ret = domain->domain ? iommu_attach_device(domain->domain, space->dev) :
					       -ENODEV;
			WRITE_ONCE(space->attached, ret ? NULL : domain);
			domain->attachments++;
		}
	}
	memalloc_noreclaim_restore(flags);
	return ret;
}
