// SPDX-License-Identifier: MIT OR Apache-2.0

// The memory behind the simulated device: files that the host names, mapped at the device's addresses, and an AXI slave
// per interface with a latency, a bandwidth and a limit of outstanding reads.

#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

// DMA clients, numbered as the hardware's AXI identifiers are (`NV_NVDLA_MCIF_define.vh`, `tieoff_axid_*`).
constexpr unsigned CLIENTS = 10;

// The traffic of a client since reset.
struct Traffic {
    uint64_t read = 0;     // bytes
    uint64_t written = 0;  // bytes
    uint64_t waited = 0;   // cycles with a read outstanding in which no data arrived
};

// The first access outside of the memory that the host has mapped.
struct Fault {
    bool happened = false;
    uint32_t interface = 0;  // 0 DBB, 1 SRAM
    uint32_t write = 0;
    uint32_t client = 0;
    uint64_t address = 0;
    uint64_t bytes = 0;
};

// The device's address space.
class Memory {
  public:
    ~Memory() {
        for (auto& piece : pieces_) drop(piece.second);
    }

    // Maps `length` bytes of a file from `offset` at `address`. They replace what was mapped there.
    void map(uint64_t address, uint64_t length, uint64_t offset, bool writable, const std::string& path) {
        if (length == 0 || address + length < address) {
            throw std::runtime_error("a range of " + std::to_string(length) + " bytes at address " + std::to_string(address) +
                                     " is empty or ends beyond 64 bits");
        }
        const int file = open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
        if (file < 0) throw std::runtime_error("cannot open " + path + ": " + std::strerror(errno));
        const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
        void* at = mmap(nullptr, length, protection, MAP_SHARED, file, static_cast<off_t>(offset));
        const int error = errno;
        close(file);
        if (at == MAP_FAILED) throw std::runtime_error("cannot map " + path + ": " + std::strerror(error));
        unmap(address, length);
        pieces_[address] = Piece{length, writable, static_cast<uint8_t*>(at), at, length};
    }

    // Unmaps a range. If it covers only a part of a piece, the rest of the piece stays.
    void unmap(uint64_t address, uint64_t length) {
        const uint64_t end = address + length < address ? UINT64_MAX : address + length;
        auto at = pieces_.upper_bound(address);
        if (at != pieces_.begin()) --at;
        while (at != pieces_.end() && at->first < end) {
            const uint64_t start = at->first;
            Piece piece = at->second;
            if (start + piece.length <= address) {
                ++at;
                continue;
            }
            at = pieces_.erase(at);
            // The parts of a piece use its mapping, which therefore stays until the program ends.
            const bool before = start < address, after = start + piece.length > end;
            if (before) pieces_[start] = Piece{address - start, piece.writable, piece.bytes, nullptr, 0};
            if (after) {
                const uint64_t skip = end - start;
                pieces_[end] = Piece{piece.length - skip, piece.writable, piece.bytes + skip, nullptr, 0};
            }
            if (!before && !after) drop(piece);
        }
        last_ = nullptr;
    }

    // Restricts the device to ranges (first address, bytes), or with `all` to what is mapped.
    void allow(bool all, std::vector<std::pair<uint64_t, uint64_t>> ranges) {
        all_ = all;
        ranges_ = std::move(ranges);
        std::sort(ranges_.begin(), ranges_.end());
    }

    // The host's address of `length` bytes, which lie in one page. Null if they are outside.
    uint8_t* find(uint64_t address, uint64_t length, bool write) {
        if (!all_ && !allowed(address, length)) return nullptr;
        if (last_ == nullptr || address < last_start_ || address - last_start_ + length > last_->length) {
            auto at = pieces_.upper_bound(address);
            if (at == pieces_.begin()) return nullptr;
            --at;
            if (address - at->first + length > at->second.length) return nullptr;
            last_start_ = at->first;
            last_ = &at->second;
        }
        if (write && !last_->writable) return nullptr;
        return last_->bytes + (address - last_start_);
    }

  private:
    struct Piece {
        uint64_t length;
        bool writable;
        uint8_t* bytes;
        void* mapping;  // unmapped with the piece; null for a part of a piece
        uint64_t mapped;
    };

    static void drop(const Piece& piece) {
        if (piece.mapping != nullptr) munmap(piece.mapping, piece.mapped);
    }

    bool allowed(uint64_t address, uint64_t length) const {
        auto at = std::upper_bound(ranges_.begin(), ranges_.end(), std::make_pair(address, UINT64_MAX));
        if (at == ranges_.begin()) return false;
        --at;
        return address - at->first + length <= at->second;
    }

    std::map<uint64_t, Piece> pieces_;
    bool all_ = true;
    std::vector<std::pair<uint64_t, uint64_t>> ranges_;
    uint64_t last_start_ = 0;
    const Piece* last_ = nullptr;
};

// The memory's speed.
struct Timing {
    uint64_t latency = 50;      // cycles from a read's request to its first data, and from a write's data to its response
    double bandwidth = 0;       // bytes per cycle, reads and writes together; 0: the bus's width each way
    uint64_t outstanding = 256; // reads, and as many writes, that may be outstanding
};

// The signals of one AXI interface in one cycle.
template <typename Data>
struct Signals {
    Data &rdata, &wdata;
    uint64_t &araddr, &awaddr, &wstrb;
    uint8_t &arvalid, &arready, &arid, &arlen, &rvalid, &rready, &rid, &rlast;
    uint8_t &awvalid, &awready, &awid, &awlen, &wvalid, &wready, &wlast, &bvalid, &bready, &bid;
};

// An AXI slave that answers in order.
class Slave {
  public:
    Slave(uint32_t interface, unsigned bytes, Memory& memory, const Timing& timing, Traffic* traffic, Fault& fault)
        : interface_(interface), bytes_(bytes), memory_(memory), timing_(timing), traffic_(traffic), fault_(fault) {}

    void reset() {
        reads_.clear();
        writes_.clear();
        beats_.clear();
        responses_.clear();
        budget_ = 0;
        presented_ = read_last_ = false;
        std::fill(pending_, pending_ + 256, 0);
    }

    // Drives the device's inputs for cycle `now`.
    template <typename S>
    void drive(S& s, uint64_t now) {
        const bool limited = timing_.bandwidth > 0;
        if (limited) budget_ = std::min(budget_ + timing_.bandwidth, timing_.bandwidth + bytes_);
        const bool may = !limited || budget_ >= bytes_;
        const bool accepts = beats_.size() < 2 * timing_.outstanding;
        s.arready = reads_.size() < timing_.outstanding;
        s.awready = writes_.size() < timing_.outstanding;
        // Reads and writes that wait for the same bytes take turns.
        const bool yields = limited && read_last_ && s.wvalid && accepts;
        // AXI: data that were offered stay until the device takes them.
        if (!presented_ && !reads_.empty() && reads_.front().ready <= now && may && !yields) {
            Burst& read = reads_.front();
            uint8_t* const host = at(read.address, false, read.id);
            std::memset(&s.rdata, 0, sizeof s.rdata);
            if (host != nullptr) std::memcpy(&s.rdata, host, bytes_);
            s.rid = read.id;
            s.rlast = read.beats == 1;
            presented_ = true;
            spend(true);
        }
        s.rvalid = presented_;
        s.wready = accepts && (!limited || budget_ >= bytes_);
        s.bvalid = !responses_.empty() && responses_.front().first <= now;
        s.bid = s.bvalid ? responses_.front().second : 0;
    }

    // Takes the device's outputs of cycle `now`. Returns whether anything was transferred.
    template <typename S>
    bool take(S& s, uint64_t now) {
        bool moved = false;
        const bool data = s.rvalid && s.rready;
        for (unsigned client = 0; client < CLIENTS; client++) {
            if (pending_[client] != 0 && !(data && reads_.front().id == client)) traffic_[client].waited++;
        }
        if (data) {
            Burst& read = reads_.front();
            count(read.id, &Traffic::read, bytes_);
            read.address = next(read.address);
            if (--read.beats == 0) {
                pending_[read.id]--;
                reads_.pop_front();
            }
            presented_ = false;
            moved = true;
        }
        if (s.arvalid && s.arready) {
            reads_.push_back(Burst{s.arid, static_cast<uint64_t>(s.araddr), s.arlen + 1U, now + timing_.latency});
            pending_[s.arid]++;
            moved = true;
        }
        if (s.awvalid && s.awready) {
            writes_.push_back(Burst{s.awid, static_cast<uint64_t>(s.awaddr), s.awlen + 1U, 0});
            moved = true;
        }
        if (s.wvalid && s.wready) {
            Beat beat{static_cast<uint64_t>(s.wstrb), {}};
            std::memcpy(beat.data, &s.wdata, bytes_);
            beats_.push_back(beat);
            spend(false);
            moved = true;
        }
        if (s.bvalid && s.bready) {
            responses_.pop_front();
            moved = true;
        }
        // Data may come before their address.
        while (!beats_.empty() && !writes_.empty()) {
            Burst& write = writes_.front();
            store(write, beats_.front());
            beats_.pop_front();
            write.address = next(write.address);
            if (--write.beats == 0) {
                responses_.emplace_back(now + timing_.latency, write.id);
                writes_.pop_front();
            }
        }
        return moved;
    }

    // Whether accesses are outstanding.
    bool busy() const { return !(reads_.empty() && writes_.empty() && beats_.empty() && responses_.empty()); }

  private:
    struct Burst {
        uint8_t id;
        uint64_t address;
        unsigned beats;
        uint64_t ready;
    };
    struct Beat {
        uint64_t strobe;
        uint8_t data[64];
    };

    void spend(bool read) {
        read_last_ = read;
        if (timing_.bandwidth > 0) budget_ -= bytes_;
    }

    // Every beat is a whole word of the interface.
    uint64_t next(uint64_t address) const { return (address / bytes_ + 1) * bytes_; }

    void count(uint8_t id, uint64_t Traffic::*what, uint64_t bytes) {
        if (id < CLIENTS) traffic_[id].*what += bytes;
    }

    void fail(uint64_t address, uint64_t bytes, bool write, uint8_t id) {
        if (fault_.happened) return;
        fault_ = Fault{true, interface_, write, id, address, bytes};
    }

    // The word that holds `address`.
    uint8_t* at(uint64_t address, bool write, uint8_t id) {
        const uint64_t start = address / bytes_ * bytes_;
        uint8_t* const host = memory_.find(start, bytes_, write);
        if (host == nullptr) fail(start, bytes_, write, id);
        return host;
    }

    void store(const Burst& write, const Beat& beat) {
        const uint64_t start = write.address / bytes_ * bytes_;
        for (unsigned first = 0; first < bytes_;) {
            if ((beat.strobe >> first & 1) == 0) {
                first++;
                continue;
            }
            unsigned end = first;
            while (end < bytes_ && (beat.strobe >> end & 1) != 0) end++;
            uint8_t* const host = memory_.find(start + first, end - first, true);
            if (host == nullptr) {
                fail(start + first, end - first, true, write.id);
            } else {
                std::memcpy(host, beat.data + first, end - first);
            }
            count(write.id, &Traffic::written, end - first);
            first = end;
        }
    }

    const uint32_t interface_;
    const unsigned bytes_;
    Memory& memory_;
    const Timing& timing_;
    Traffic* const traffic_;
    Fault& fault_;
    std::deque<Burst> reads_, writes_;
    std::deque<Beat> beats_;
    std::deque<std::pair<uint64_t, uint8_t>> responses_;
    unsigned pending_[256] = {};
    double budget_ = 0;
    bool presented_ = false;
    bool read_last_ = false;  // the last bytes went to a read
};
