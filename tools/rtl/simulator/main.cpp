// SPDX-License-Identifier: MIT OR Apache-2.0

// NVDLA's RTL as a program: it clocks the design, is the master of its register interface and the slave of its memory
// interfaces, and does what a host asks through the socket that is its standard input. `docs/rtl.md` describes the
// protocol. `nvdla_top.sv`, which the build generates, gives the design's ports fixed names.

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "Vnvdla_top.h"
#include "memory.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif

namespace {

constexpr uint32_t VERSION = 2;
// Cycles that the design is held in reset, and that it has to settle after it.
constexpr int RESET_CYCLES = 64;
constexpr int SETTLE_CYCLES = 256;
// Cycles that a register access may take.
constexpr int ACCESS_CYCLES = 4096;
// Cycles after the completion of a write to GLB, in which the interrupt line follows what was written.
constexpr int AFTER_WRITE = 4;
// The blocks below this offset hold GLB in every release. Writes to them are non-posted, because the interrupt line
// follows them; all others are posted, as a system's bridge sends them, and take one or two cycles.
constexpr uint32_t AFTER_GLB = 0x2000;
constexpr uint32_t LONGEST_REQUEST = 1 << 20;

enum Kind : uint32_t { HELLO = 1, READ, WRITE, RUN, MAP, UNMAP, ALLOW, RESET, WAVEFORM, FAILED = 0xffffffff };
enum Reason : uint32_t { INTERRUPT = 1, LIMIT, TIME, FAULT, IDLE, ASSERTION };

// The first assertion that has failed since the last state, and parts of the texts of those that are ignored.
std::string assertion;
std::vector<std::string> ignored;

struct Options {
    Timing dbb, sram;
    // Cycles without a memory access after which a run ends because nothing happens any more.
    uint64_t idle = 4000000;
    // Cycles that a register access lasts at least, as behind a slow bus.
    uint64_t access = 0;
};

// A message as it is read.
class Reader {
  public:
    explicit Reader(const std::vector<uint8_t>& bytes) : bytes_(bytes) {}
    template <typename T>
    T number() {
        T value;
        if (bytes_.size() - at_ < sizeof value) throw std::runtime_error("the request is too short");
        std::memcpy(&value, bytes_.data() + at_, sizeof value);
        at_ += sizeof value;
        return value;
    }
    std::string rest() { return std::string(bytes_.begin() + static_cast<long>(at_), bytes_.end()); }

  private:
    const std::vector<uint8_t>& bytes_;
    size_t at_ = 0;
};

// A message as it is written.
class Writer {
  public:
    template <typename T>
    void number(T value) {
        const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
        bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
    }
    void text(const std::string& text) { bytes_.insert(bytes_.end(), text.begin(), text.end()); }
    const std::vector<uint8_t>& bytes() const { return bytes_; }

  private:
    std::vector<uint8_t> bytes_;
};

// A done pulse, with what all clients had done by then.
struct Done {
    uint64_t cycle;
    uint32_t bits;
    Traffic traffic[CLIENTS];
};

class Device {
  public:
    explicit Device(const Options& options)
        : options_(options),
          context_(context()),
          top_(std::make_unique<Vnvdla_top>(context_.get())),
          dbb_(0, sizeof top_->m0_rdata, memory_[0], options_.dbb, traffic_, fault_),
          sram_(1, sizeof top_->m1_rdata, memory_[1], options_.sram, traffic_, fault_) {
        reset();
    }
    ~Device() { waves(""); }

    void reset() {
        dbb_.reset();
        sram_.reset();
        fault_ = Fault{};
        done_.clear();
        unseen_ = false;
        assertion.clear();
        std::fill(traffic_, traffic_ + CLIENTS, Traffic{});
        top_->csb_valid = 0;
        top_->rstn = 0;
        for (int i = 0; i < RESET_CYCLES; i++) cycle();
        dbb_.reset();
        sram_.reset();
        top_->rstn = 1;
        for (int i = 0; i < SETTLE_CYCLES; i++) cycle();
    }

    // A register access that lasts as long as the options say: the value that a read gives, zero for a write.
    uint32_t access(uint32_t offset, bool write, uint32_t value) {
        const uint64_t end = now_ + options_.access;
        const uint32_t data = transfer(offset, write, value);
        while (now_ < end) cycle();
        return data;
    }

    // Clocks until there is a new interrupt or one of the limits is reached. The line may have been high since before the
    // last run. That is a new interrupt only if a unit has completed since then.
    Reason run(uint64_t cycles, uint32_t milliseconds) {
        const auto start = std::chrono::steady_clock::now();
        const auto limit = std::chrono::milliseconds(milliseconds);
        for (uint64_t i = 0; i < cycles; i++) {
            if (new_interrupt()) return INTERRUPT;
            cycle();
            if (fault_.happened) return FAULT;
            if (!assertion.empty()) return ASSERTION;
            if (idle_ >= options_.idle) {
                idle_ = 0;
                return IDLE;
            }
            if (i % 64 == 63 && milliseconds != 0 && std::chrono::steady_clock::now() - start >= limit) return TIME;
        }
        return new_interrupt() ? INTERRUPT : LIMIT;
    }

    void waves(const std::string& path) {
#if VM_TRACE
        if (waves_) waves_->close();
        waves_.reset();
        if (path.empty()) return;
        context_->traceEverOn(true);
        waves_ = std::make_unique<VerilatedFstC>();
        top_->trace(waves_.get(), 99);
        waves_->open(path.c_str());
        if (!waves_->isOpen()) {
            waves_.reset();
            throw std::runtime_error("cannot write " + path);
        }
#else
        if (!path.empty()) throw std::runtime_error("this program was built without waveforms");
#endif
    }

    // The state that every reply has: the cycle, the interrupt line, the memory fault, the done pulses since, and the assertion.
    void state(Writer& reply) {
        reply.number(now_);
        reply.number<uint32_t>(top_->intr);
        reply.number<uint32_t>(fault_.happened);
        reply.number(fault_.interface);
        reply.number(fault_.write);
        reply.number(fault_.client);
        reply.number<uint32_t>(static_cast<uint32_t>(done_.size()));
        reply.number(fault_.address);
        reply.number(fault_.bytes);
        for (const Done& done : done_) {
            reply.number(done.cycle);
            reply.number<uint64_t>(done.bits);
            for (const Traffic& traffic : done.traffic) {
                reply.number(traffic.read);
                reply.number(traffic.written);
                reply.number(traffic.waited);
            }
        }
        reply.text(assertion);
        done_.clear();
        fault_ = Fault{};
        assertion.clear();
    }

    void hello(Writer& reply) {
        reply.number(VERSION);
        reply.number<uint32_t>(sizeof top_->m0_rdata);
        reply.number<uint32_t>(NVDLA_ADDRESS_BITS);
        reply.number<uint32_t>(NVDLA_SRAM ? sizeof top_->m1_rdata : 0);
        reply.number<uint32_t>(VM_TRACE);
        reply.text(NVDLA_CONFIG);
    }

    // The address spaces of DBB and SRAM.
    Memory& memory(int interface) { return memory_[interface]; }

  private:
    // A register access on the design's interface.
    uint32_t transfer(uint32_t offset, bool write, uint32_t value) {
        top_->csb_valid = 1;
        top_->csb_addr = static_cast<uint16_t>(offset >> 2);
        top_->csb_wdat = value;
        top_->csb_write = write;
        const bool posted = write && offset >= AFTER_GLB;
        top_->csb_nposted = write && !posted;
        bool taken = false;
        for (int i = 0; i < ACCESS_CYCLES; i++) {
            cycle();
            if (!taken && csb_ready_) {
                taken = true;
                top_->csb_valid = 0;
                if (posted) return 0;
            }
            if (taken && (write ? csb_complete_ : csb_data_valid_)) {
                const uint32_t data = write ? 0 : csb_data_;
                for (int j = 0; write && j < AFTER_WRITE; j++) cycle();
                return data;
            }
        }
        top_->csb_valid = 0;
        char text[96];
        std::snprintf(text, sizeof text, "the %s of register %#x is not answered in %d cycles", write ? "write" : "read",
                      offset, ACCESS_CYCLES);
        throw std::runtime_error(text);
    }

    // The design may ask for arguments of its own; there are none.
    static std::unique_ptr<VerilatedContext> context() {
        auto made = std::make_unique<VerilatedContext>();
        const char* name = "nvdla_rtl";
        made->commandArgs(1, &name);
        return made;
    }

    bool new_interrupt() {
        if (!top_->intr || !unseen_) return false;
        unseen_ = false;
        return true;
    }

    void cycle() {
        auto& t = *top_;
        Signals dbb{t.m0_rdata,   t.m0_wdata,   t.m0_araddr, t.m0_awaddr,  t.m0_wstrb,   t.m0_arvalid, t.m0_arready,
                    t.m0_arid,    t.m0_arlen,   t.m0_rvalid, t.m0_rready,  t.m0_rid,     t.m0_rlast,   t.m0_awvalid,
                    t.m0_awready, t.m0_awid,    t.m0_awlen,  t.m0_wvalid,  t.m0_wready,  t.m0_wlast,   t.m0_bvalid,
                    t.m0_bready,  t.m0_bid};
        Signals sram{t.m1_rdata,   t.m1_wdata,   t.m1_araddr, t.m1_awaddr,  t.m1_wstrb,   t.m1_arvalid, t.m1_arready,
                     t.m1_arid,    t.m1_arlen,   t.m1_rvalid, t.m1_rready,  t.m1_rid,     t.m1_rlast,   t.m1_awvalid,
                     t.m1_awready, t.m1_awid,    t.m1_awlen,  t.m1_wvalid,  t.m1_wready,  t.m1_wlast,   t.m1_bvalid,
                     t.m1_bready,  t.m1_bid};
        dbb_.drive(dbb, now_);
        if (NVDLA_SRAM) sram_.drive(sram, now_);
        t.clk = 0;
        t.eval();
        dump(2 * now_);
        // The values that the coming edge takes.
        csb_ready_ = t.csb_valid && t.csb_ready;
        csb_data_valid_ = t.csb_data_valid;
        csb_data_ = t.csb_data;
        csb_complete_ = t.csb_wr_complete;
        bool moved = false;
        if (t.rstn) {
            moved = dbb_.take(dbb, now_);
            if (NVDLA_SRAM) moved |= sram_.take(sram, now_);
        }
        const uint32_t bits = t.rstn ? t.done : 0;
        if ((bits & ~done_bits_) != 0) {
            Done done{now_, bits & ~done_bits_, {}};
            std::copy(traffic_, traffic_ + CLIENTS, done.traffic);
            done_.push_back(done);
            moved = unseen_ = true;
        }
        done_bits_ = bits;
        idle_ = moved ? 0 : idle_ + 1;
        const bool up = t.intr;
        t.clk = 1;
        t.eval();
        unseen_ |= t.intr && !up;
        dump(2 * now_ + 1);
        now_++;
    }

    void dump([[maybe_unused]] uint64_t time) {
#if VM_TRACE
        if (waves_) waves_->dump(time);
#endif
    }

    const Options options_;
    Memory memory_[2];
    Traffic traffic_[CLIENTS];
    Fault fault_;
    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<Vnvdla_top> top_;
    Slave dbb_, sram_;
    std::vector<Done> done_;
    uint64_t now_ = 0, idle_ = 0;
    uint32_t done_bits_ = 0, csb_data_ = 0;
    bool csb_ready_ = false, csb_data_valid_ = false, csb_complete_ = false, unseen_ = false;
#if VM_TRACE
    std::unique_ptr<VerilatedFstC> waves_;
#endif
};

}  // namespace

// An assertion of the design has failed (assertions.sv).
extern "C" void nvdla_assertion(const char* what) {
    if (!assertion.empty()) return;
    for (const std::string& part : ignored) {
        if (std::strstr(what, part.c_str()) != nullptr) return;
    }
    assertion = what;
}

namespace {

bool receive(void* to, size_t length) {
    auto* at = static_cast<uint8_t*>(to);
    while (length > 0) {
        const ssize_t got = read(0, at, length);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        length -= static_cast<size_t>(got);
    }
    return true;
}

bool send(const void* from, size_t length) {
    const auto* at = static_cast<const uint8_t*>(from);
    while (length > 0) {
        const ssize_t put = write(0, at, length);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        at += put;
        length -= static_cast<size_t>(put);
    }
    return true;
}

// Does what a request asks.
void answer(Device& device, uint32_t kind, Reader& request, Writer& reply) {
    switch (kind) {
        case HELLO: {
            const auto version = request.number<uint32_t>();
            if (version != VERSION) {
                throw std::runtime_error("the host speaks version " + std::to_string(version) + ", this program " +
                                         std::to_string(VERSION));
            }
            device.hello(reply);
            return;
        }
        case READ:
            reply.number(device.access(request.number<uint32_t>(), false, 0));
            break;
        case WRITE: {
            const auto offset = request.number<uint32_t>();
            device.access(offset, true, request.number<uint32_t>());
            reply.number<uint32_t>(0);
            break;
        }
        case RUN: {
            const auto cycles = request.number<uint64_t>();
            reply.number<uint32_t>(device.run(cycles, request.number<uint32_t>()));
            break;
        }
        case MAP: {
            const auto address = request.number<uint64_t>();
            const auto length = request.number<uint64_t>();
            const auto offset = request.number<uint64_t>();
            const auto interfaces = request.number<uint32_t>();
            const auto writable = request.number<uint32_t>();
            const std::string path = request.rest();
            for (int i = 0; i < 2; i++) {
                if (interfaces >> i & 1) device.memory(i).map(address, length, offset, writable != 0, path);
            }
            return;
        }
        case UNMAP: {
            const auto address = request.number<uint64_t>();
            const auto length = request.number<uint64_t>();
            for (int i = 0; i < 2; i++) device.memory(i).unmap(address, length);
            return;
        }
        case ALLOW: {
            const auto all = request.number<uint32_t>();
            std::vector<std::pair<uint64_t, uint64_t>> ranges(request.number<uint32_t>());
            for (auto& range : ranges) {
                range.first = request.number<uint64_t>();
                range.second = request.number<uint64_t>();
            }
            for (int i = 0; i < 2; i++) device.memory(i).allow(all != 0, ranges);
            return;
        }
        case RESET:
            device.reset();
            reply.number<uint32_t>(0);
            break;
        case WAVEFORM:
            device.waves(request.rest());
            return;
        default:
            throw std::runtime_error("there is no request " + std::to_string(kind));
    }
    device.state(reply);
}

// Serves the host until it closes the socket.
int serve(Device& device) {
    for (;;) {
        uint32_t header[2];
        if (!receive(header, sizeof header)) return 0;
        if (header[1] > LONGEST_REQUEST) {
            std::fprintf(stderr, "a request of %u bytes\n", header[1]);
            return 1;
        }
        std::vector<uint8_t> bytes(header[1]);
        if (!receive(bytes.data(), bytes.size())) return 0;
        Reader request(bytes);
        Writer reply;
        uint32_t kind = header[0];
        try {
            answer(device, kind, request, reply);
        } catch (const std::exception& error) {
            reply = Writer();
            reply.text(error.what());
            kind = FAILED;
        }
        const uint32_t head[2] = {kind, static_cast<uint32_t>(reply.bytes().size())};
        if (!send(head, sizeof head) || !send(reply.bytes().data(), reply.bytes().size())) return 0;
    }
}

[[noreturn]] void usage(const char* name, int status) {
    std::fprintf(status == 0 ? stdout : stderr,
                 "Usage: %s [OPTIONS]\n\n"
                 "NVDLA's RTL (" NVDLA_CONFIG "). A host starts it with a socket as standard input: "
                 "nvdla_runtime --device rtl:PROGRAM\n\n"
                 "  --latency CYCLES         of DBB's memory (50)\n"
                 "  --bandwidth BYTES        of DBB, per cycle, reads and writes together (0: the bus's width each way)\n"
                 "  --outstanding N          reads, and writes, under way on DBB (256)\n"
                 "  --sram-latency CYCLES, --sram-bandwidth BYTES, --sram-outstanding N\n"
                 "                           the same of SRAM\n"
                 "  --register CYCLES        that a register access lasts at least (0)\n"
                 "  --idle CYCLES            without a memory access until a run ends (4000000)\n"
                 "  --ignore TEXT            assertions whose text contains this do not end a run\n",
                 name);
    std::exit(status);
}

Options parse(int count, char** words) {
    Options options;
    for (int i = 1; i < count; i++) {
        std::string word = words[i], value;
        if (word == "-h" || word == "--help") usage(words[0], 0);
        const size_t equals = word.find('=');
        if (equals != std::string::npos) {
            value = word.substr(equals + 1);
            word.resize(equals);
        } else if (i + 1 < count) {
            value = words[++i];
        }
        if (word == "--ignore" && !value.empty()) {
            ignored.push_back(value);
            continue;
        }
        char* end = nullptr;
        const double number = std::strtod(value.c_str(), &end);
        const bool sram = word.rfind("--sram-", 0) == 0;
        const std::string what = sram ? word.substr(7) : word.rfind("--", 0) == 0 ? word.substr(2) : "";
        Timing& timing = sram ? options.sram : options.dbb;
        if (value.empty() || *end != 0 || !(number >= 0) || number > 1e15) usage(words[0], 2);
        if (what == "latency") {
            timing.latency = static_cast<uint64_t>(number);
        } else if (what == "bandwidth") {
            timing.bandwidth = number;
        } else if (what == "outstanding" && number >= 1) {
            timing.outstanding = static_cast<uint64_t>(number);
        } else if (what == "idle" && !sram && number >= 1) {
            options.idle = static_cast<uint64_t>(number);
        } else if (what == "register" && !sram) {
            options.access = static_cast<uint64_t>(number);
        } else {
            usage(words[0], 2);
        }
    }
    return options;
}

}  // namespace

int main(int count, char** words) {
    const Options options = parse(count, words);
    if (isatty(0)) usage(words[0], 2);
    Device device(options);
    return serve(device);
}
