// Measures what CUDA itself offers for copies, and the kernels of internal/driver/cuda/kernels beside it. Every measured run
// is verified: the destination is overwritten before it, and compared with the source after it, with the bytes around each segment.
//
//   bench PTX            tables of what the kernels do by themselves
//   bench PTX sweep      grid sizes and pieces, to set the planner by
//   bench PTX serve MIB  serves requests, as acl/bench.c explains them, with so much memory on either side; beside loop and batch
//                        there is kernel, the kernel without the driver around it
#include <sys/mman.h>

#include "common.cuh"

namespace {

constexpr size_t count = 4096;
constexpr size_t gap = 128;     // between two segments, and before the first
constexpr size_t around = 16;   // bytes on either side that are compared
constexpr uint8_t blank = 0xa5; // what destinations hold before
constexpr size_t slack = 64 << 20;
constexpr int rouse = 24;       // times that scrap is written

// Bench holds the memory that everything is measured in.
struct Bench {
    Kernels kernels;
    cudaDeviceProp gpu;
    size_t room;
    cudaStream_t stream;
    uint8_t *host_from, *host_to, *device_from, *device_to;  // the sources hold the same bytes
    uint8_t *scrap;
    size_t flush;
    Table table;
    std::mt19937_64 random{20260101};

    Bench(const char *ptx, cudaDeviceProp gpu, size_t room)
        : kernels(ptx), gpu(gpu), room(room), flush(std::min<size_t>(256 << 20, room)) {
        OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        host_from = pinned<uint8_t>(room), host_to = pinned<uint8_t>(room);
        device_from = on_device<uint8_t>(room), device_to = on_device<uint8_t>(room);
        scrap = on_device<uint8_t>(flush);
        table = new_table(1 << 20);
        for (size_t i = 0; i + 8 <= room; i += 8) {
            uint64_t v = random();
            std::memcpy(host_from + i, &v, 8);
        }
        OK(cudaMemcpy(device_from, host_from, room, cudaMemcpyHostToDevice));
    }

    uint8_t *source(Direction d) { return d == h2d ? host_from : device_from; }
    uint8_t *target(Direction d) { return d == d2h ? host_to : device_to; }

    // segments lays n of them out at random; odd ones have any alignment and up to 15 bytes less.
    std::vector<Segment> segments(Direction d, size_t n, size_t bytes, bool odd) {
        size_t slot = (bytes + 127) / 128 * 128 + gap;
        if (n * slot + gap > room) std::abort();
        std::vector<size_t> from(n), to(n);
        for (size_t i = 0; i < n; i++) from[i] = to[i] = gap + i * slot;
        std::shuffle(from.begin(), from.end(), random);
        std::shuffle(to.begin(), to.end(), random);
        std::vector<Segment> list(n);
        for (size_t i = 0; i < n; i++) {
            uint64_t a = odd ? random() % 16 : 0, b = odd ? random() % 16 : 0, less = odd ? random() % 16 : 0;
            list[i] = {uint64_t(target(d)) + to[i] + a, uint64_t(source(d)) + from[i] + b, bytes - less};
        }
        return list;
    }

    // timed is how long f takes, with all that it puts on the stream, in seconds.
    template <class F>
    double timed(F f) {
        double start = now();
        f();
        OK(cudaStreamSynchronize(stream));
        return now() - start;
    }

    // time is the median of verified runs of f.
    template <class F>
    double time(Direction d, const std::vector<Segment> &list, int rounds, F f, bool cold = true) {
        return median(times(d, list, rounds, [&] { return timed(f); }, cold));
    }

    // times are what run returns, when it is verified. What comes before it is what acl/bench.c does, in
    // the same order, which says why. If it is not to be cold, the destination alone is overwritten.
    template <class F>
    std::vector<double> times(Direction d, const std::vector<Segment> &list, int rounds, F run, bool cold = true) {
        size_t used = 0;
        for (const Segment &s : list) used = std::max<size_t>(used, s.dst + s.bytes - uint64_t(target(d)) + around);
        std::vector<double> result;
        for (int i = -1; i < rounds; i++) {  // the first is to warm up
            if (cold) {
                write(rouse);
                run();
            }
            poison(d, used);
            write(cold ? 1 : 0);
            double took = run();
            compare(d, list, used);
            if (i >= 0) result.push_back(took);
        }
        return result;
    }

    // poison overwrites the destination. The device writes host memory, the source once more too.
    void poison(Direction d, size_t used) {
        OK(cudaMemsetAsync(device_to, blank, used, stream));
        if (d == h2d) OK(cudaMemcpyAsync(host_from, device_from, used, cudaMemcpyDeviceToHost, stream));
        if (d == d2h) OK(cudaMemcpyAsync(host_to, device_to, used, cudaMemcpyDeviceToHost, stream));
    }

    // write overwrites memory that nobody needs, so many times, and waits.
    void write(int times) {
        for (int i = 0; i < times; i++) OK(cudaMemsetAsync(scrap, 0, flush, stream));
        OK(cudaStreamSynchronize(stream));
    }

    // compare ends the program unless all that was to be copied is there, and nothing else.
    void compare(Direction d, const std::vector<Segment> &list, size_t used) {
        if (d != d2h) OK(cudaMemcpy(host_to, device_to, used, cudaMemcpyDeviceToHost));
        const std::vector<uint8_t> untouched(around, blank);
        size_t wrong = 0;
        for (const Segment &s : list) {
            const uint8_t *is = host_to + (s.dst - uint64_t(target(d))), *want = host_from + (s.src - uint64_t(source(d)));
            wrong += std::memcmp(is, want, s.bytes) != 0 || std::memcmp(is - around, untouched.data(), around) != 0 ||
                     std::memcmp(is + s.bytes, untouched.data(), around) != 0;
        }
        if (wrong == 0) return;
        std::printf("WRONG: %zu of %zu segments of about %llu bytes, %s\n", wrong, list.size(), (unsigned long long)list[0].bytes, name(d));
        std::exit(1);
    }

    void by_kernel(const Plan &p, const std::vector<Segment> &list) {
        kernels.batch(p, table, list, stream);
    }

    void by_loop(const std::vector<Segment> &list) {
        for (const Segment &s : list) OK(cudaMemcpyAsync((void *)s.dst, (void *)s.src, s.bytes, cudaMemcpyDefault, stream));
    }

    Plan plan(Direction d, const std::vector<Segment> &list) {
        uint64_t bytes = 0;
        for (const Segment &s : list) bytes += s.bytes;
        return Plan(d, bytes, unsigned(gpu.multiProcessorCount));
    }
};

// Lists are the arrays that cudaMemcpyBatchAsync takes, made before the clock starts.
struct Lists {
    std::vector<const void *> dsts, srcs;
    std::vector<size_t> sizes;
    cudaMemcpyAttributes attributes{};
    size_t first = 0;

    explicit Lists(const std::vector<Segment> &list) {
        for (const Segment &s : list) {
            dsts.push_back((void *)s.dst), srcs.push_back((void *)s.src), sizes.push_back(s.bytes);
        }
        attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    }
};

// by_batch calls the batch copy with what this toolkit's version of it takes.
template <class L>
void by_batch(L &l, cudaStream_t stream) {
    size_t n = l.sizes.size(), failed = 0;
    auto d = l.dsts.data();
    auto s = l.srcs.data();
    auto vd = (void **)d;
    auto vs = (void **)s;
    if constexpr (requires { cudaMemcpyBatchAsync(d, s, l.sizes.data(), n, &l.attributes, &l.first, size_t(1), stream); })
        OK(cudaMemcpyBatchAsync(d, s, l.sizes.data(), n, &l.attributes, &l.first, size_t(1), stream));
    else if constexpr (requires { cudaMemcpyBatchAsync(vd, vs, l.sizes.data(), n, &l.attributes, &l.first, size_t(1), stream); })
        OK(cudaMemcpyBatchAsync(vd, vs, l.sizes.data(), n, &l.attributes, &l.first, size_t(1), stream));
    else
        OK(cudaMemcpyBatchAsync(vd, vs, l.sizes.data(), n, &l.attributes, &l.first, size_t(1), &failed, stream));
}

// Graph is a loop that was captured.
struct Graph {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    double compiled;  // how long it took to instantiate

    Graph(Bench &b, const std::vector<Segment> &list) {
        OK(cudaStreamBeginCapture(b.stream, cudaStreamCaptureModeGlobal));
        b.by_loop(list);
        OK(cudaStreamEndCapture(b.stream, &graph));
        double start = now();
        OK(cudaGraphInstantiate(&exec, graph, 0));
        compiled = now() - start;
    }
    Graph(const Graph &) = delete;
    ~Graph() { OK(cudaGraphExecDestroy(exec)), OK(cudaGraphDestroy(graph)); }

    void launch(cudaStream_t stream) { OK(cudaGraphLaunch(exec, stream)); }
};

double rate(const std::vector<Segment> &list, double seconds) {
    uint64_t bytes = 0;
    for (const Segment &s : list) bytes += s.bytes;
    return double(bytes) / seconds / 1e9;
}

std::string size_name(size_t n) {
    if (n >= 1 << 20) return std::to_string(n >> 20) + " MiB";
    if (n >= 1 << 10) return std::to_string(n >> 10) + " KiB";
    return std::to_string(n) + " B";
}

void bulk(Bench &b) {
    std::printf("\nOne copy, cudaMemcpyAsync and a wait, GB/s\n%-10s %8s %8s %8s\n", "bytes", "H2D", "D2H", "D2D");
    for (size_t n = 4 << 10; n <= 1 << 30; n *= 4) {
        std::printf("%-10s", size_name(n).c_str());
        for (Direction d : {h2d, d2h, d2d}) {
            auto list = b.segments(d, 1, n, false);
            std::printf(" %8.2f", rate(list, b.time(d, list, 9, [&] { b.by_loop(list); })));
        }
        std::printf("\n");
    }
}

// submits are how long a call of f takes, on average of many, that nobody waits for.
template <class F>
std::vector<double> submits(Bench &b, int rounds, F f) {
    std::vector<double> result;
    for (int r = -1; r < rounds; r++) {
        b.write(rouse);
        double start = now();
        for (int i = 0; i < 256; i++) f();
        double took = (now() - start) / 256;
        OK(cudaStreamSynchronize(b.stream));
        if (r >= 0) result.push_back(took);
    }
    return result;
}

void calls(Bench &b) {
    std::printf("\nCalls, microseconds\n%-34s %8s %8s %8s\n", "", "H2D", "D2H", "D2D");
    auto row = [&](const char *title, auto f) {
        std::printf("%-34s", title);
        for (Direction d : {h2d, d2h, d2d}) std::printf(" %8.2f", f(d) * 1e6);
        std::printf("\n");
    };
    auto submit = [&](auto f) { return median(submits(b, 21, f)); };
    row("64 B copy, submit", [&](Direction d) {
        auto list = b.segments(d, 1, 64, false);
        return submit([&] { b.by_loop(list); });
    });
    row("64 B copy, round trip", [&](Direction d) {
        auto list = b.segments(d, 1, 64, false);
        return b.time(d, list, 301, [&] { b.by_loop(list); }, false);
    });
    row("kernel, 16 x 64 B, submit", [&](Direction d) {
        auto list = b.segments(d, 16, 64, false);
        Plan p = b.plan(d, list);
        return submit([&] { b.by_kernel(p, list); });
    });
    for (size_t bytes : {size_t(4 << 10), size_t(64 << 10)})
        for (size_t n : {1, 2, 3, 4, 16, 64, 256}) {
            std::string title = std::to_string(n) + " x " + size_name(bytes);
            row((title + ", round trip, loop").c_str(), [&](Direction d) {
                auto list = b.segments(d, n, bytes, false);
                return b.time(d, list, 51, [&] { b.by_loop(list); }, false);
            });
            row((title + ", round trip, kernel").c_str(), [&](Direction d) {
                auto list = b.segments(d, n, bytes, false);
                Plan p = b.plan(d, list);
                return b.time(d, list, 51, [&] { b.by_kernel(p, list); }, false);
            });
        }
}

void batches(Bench &b) {
    std::printf("\nBatches, GB/s: a loop of cudaMemcpyAsync, cudaMemcpyBatchAsync, one kernel (table filled in the timed part),\n"
                "the kernel with odd sizes and alignments, and the kernel over the better of the two. fill: microseconds of\n"
                "it for the table\n");
    std::printf("%-4s %14s %8s %8s %8s %8s %9s %9s %6s\n", "", "segments", "loop", "batch", "kernel", "odd", "x batch",
                "x better", "fill");
    for (Direction d : {h2d, d2h, d2d})
        for (size_t bytes : {64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20,
                             16 << 20, 64 << 20}) {
            size_t n = std::min(count, (size_t(1) << 30) / bytes);
            int few = bytes >= 64 << 10 ? 3 : 9, many = bytes >= 64 << 10 ? 5 : 21;
            auto list = b.segments(d, n, bytes, false), odd = b.segments(d, n, bytes, true);
            Lists arrays(list);
            double loop = rate(list, b.time(d, list, few, [&] { b.by_loop(list); }));
            double batch = rate(list, b.time(d, list, few, [&] { by_batch(arrays, b.stream); }));
            Plan p = b.plan(d, list);
            double kernel = rate(list, b.time(d, list, many, [&] { b.by_kernel(p, list); }));
            double odds = rate(odd, b.time(d, odd, many, [&] { b.by_kernel(p, odd); }));
            std::vector<double> fills;
            for (int i = 0; i < 21; i++) {
                double start = now();
                p.fill(b.table, list);
                fills.push_back(now() - start);
            }
            std::printf("%-4s %5zu x %-7s %8.2f %8.2f %8.2f %8.2f %8.1fx %8.2fx %6.1f\n", name(d), n, size_name(bytes).c_str(), loop,
                        batch, kernel, odds, kernel / batch, kernel / std::max(loop, batch), median(fills) * 1e6);
        }
}

// rows_of_batches measures batches that follow each other on one stream, each with a table of its own, and one wait at the end.
void rows_of_batches(Bench &b) {
    const int row = 8;
    std::vector<Table> tables;
    for (int i = 0; i < row; i++) tables.push_back(new_table(2 * count));
    std::printf("\nEight batches in a row and one wait, GB/s\n%-4s %14s %8s %8s %9s\n", "", "segments", "batch", "kernel", "x batch");
    for (Direction d : {h2d, d2h, d2d})
        for (size_t bytes : {256, 1 << 10, 4 << 10, 16 << 10}) {
            auto list = b.segments(d, count, bytes, false);
            Lists arrays(list);
            double batch = row * rate(list, b.time(d, list, 5, [&] {
                for (int i = 0; i < row; i++) by_batch(arrays, b.stream);
            }));
            Plan p = b.plan(d, list);
            double kernel = row * rate(list, b.time(d, list, 21, [&] {
                for (int i = 0; i < row; i++) b.kernels.batch(p, tables[i], list, b.stream);
            }));
            std::printf("%-4s %5zu x %-7s %8.2f %8.2f %8.1fx\n", name(d), count, size_name(bytes).c_str(), batch, kernel,
                        kernel / batch);
        }
}

// descriptors measures copies whose addresses the GPU reads when they run: one kernel reads and judges, one moves.
void descriptors(Bench &b) {
    std::printf("\nDescriptor copy and a wait, D2D\n%-10s %12s %8s\n", "bytes", "microseconds", "GB/s");
    uint64_t *live = pinned<uint64_t>(8), *current = pinned<uint64_t>(1), found = uint64_t(on_device<uint8_t>(32));
    uint64_t lower = std::min(uint64_t(b.device_from), uint64_t(b.device_to)), upper = std::max(uint64_t(b.device_from), uint64_t(b.device_to));
    uint64_t ranges[] = {2, lower, lower + b.room, upper, upper + b.room};
    std::copy(std::begin(ranges), std::end(ranges), live);
    *current = uint64_t(live);
    uint32_t *report = pinned<uint32_t>(1);
    uint8_t *descriptor = on_device<uint8_t>(64);
    for (size_t n : {4 << 10, 1 << 20, 64 << 20, 1 << 30}) {
        auto list = b.segments(d2d, 1, n, false);
        uint32_t length = uint32_t(n), at[] = {48, 32, 40};
        OK(cudaMemcpy(descriptor + at[0], &length, 4, cudaMemcpyHostToDevice));
        OK(cudaMemcpy(descriptor + at[1], &list[0].src, 8, cudaMemcpyHostToDevice));
        OK(cudaMemcpy(descriptor + at[2], &list[0].dst, 8, cudaMemcpyHostToDevice));
        double took = b.time(d2d, list, 9, [&] {
            void *read[] = {&descriptor, &at[0], &at[1], &at[2], &current, &found, &report}, *move[] = {&found};
            OK(cuLaunchKernel(b.kernels.descriptor, 1, 1, 1, 32, 1, 1, 0, b.stream, read, nullptr));
            OK(cuLaunchKernel(b.kernels.move, 2 * b.gpu.multiProcessorCount, 1, 1, threads, 1, 1, 0, b.stream, move, nullptr));
        });
        if (*report) std::abort();
        std::printf("%-10s %12.1f %8.1f\n", size_name(n).c_str(), took * 1e6, rate(list, took));
    }
}

void sweep(Bench &b) {
    for (Direction d : {h2d, d2h, d2d})
        for (size_t bytes : {64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10}) {
            if (d != d2d && bytes > 64 << 10) continue;
            auto list = b.segments(d, count, bytes, false), odd = b.segments(d, count, bytes, true);
            for (unsigned blocks : {8, 16, 32, 64, 132, 264, 396})
                for (unsigned run : {0, 1, 16})
                    for (size_t piece : {16 << 10, 64 << 10, 256 << 10}) {
                        if (piece > bytes && piece > 16 << 10) continue;
                        if (d == d2d ? blocks < 132 || run > 1 : blocks > 132 || piece > 64 << 10) continue;
                        Plan p(blocks, run, piece);
                        int rounds = bytes >= 64 << 10 ? 3 : 9;
                        double even = rate(list, b.time(d, list, rounds, [&] { b.by_kernel(p, list); }));
                        double odds = rate(odd, b.time(d, odd, rounds, [&] { b.by_kernel(p, odd); }));
                        std::printf("%s %8zu B  blocks %4u run %2u piece %3zu KiB  %8.2f odd %8.2f\n", name(d), bytes, blocks, run,
                                    piece >> 10, even, odds);
                    }
        }
}

// by_ordinary is how long cudaMemcpy takes with ordinary memory, used before, in place of the host's end of a copy.
double by_ordinary(Direction d, const Segment &s) {
    void *mine = mmap(nullptr, s.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mine == MAP_FAILED) std::abort();
    if (d == h2d) std::memcpy(mine, (void *)s.src, s.bytes);
    else std::memset(mine, 0, s.bytes);
    double start = now();
    if (d == h2d) OK(cudaMemcpy((void *)s.dst, mine, s.bytes, cudaMemcpyHostToDevice));
    else OK(cudaMemcpy(mine, (void *)s.src, s.bytes, cudaMemcpyDeviceToHost));
    double took = now() - start;
    if (d == d2h) std::memcpy((void *)s.dst, mine, s.bytes);
    munmap(mine, s.bytes);
    return took;
}

void serve(Bench &b) {
    std::printf("ready\n");
    std::string what, way;
    size_t n, bytes;
    int odd, rounds;
    while (std::cin >> what >> way >> n >> bytes >> odd >> rounds) {
        Direction d = way == "h2d" ? h2d : way == "d2h" ? d2h : d2d;
        if (n == 0 || n > count || n * ((bytes + 127) / 128 * 128 + gap) + 2 * gap > b.room) {
            std::printf("error no room for %zu segments of %zu bytes\n", n, bytes);
            continue;
        }
        auto list = b.segments(d, n, bytes, odd != 0);
        Lists arrays(list);
        Plan plan = b.plan(d, list);
        std::vector<double> took;
        auto measure = [&](auto f) { took = b.times(d, list, rounds, [&] { return b.timed(f); }); };
        if (what == "loop") measure([&] { b.by_loop(list); });
        if (what == "batch") measure([&] { by_batch(arrays, b.stream); });
        if (what == "kernel") measure([&] { b.by_kernel(plan, list); });
        if (what == "graph") {
            Graph g(b, list);
            measure([&] { g.launch(b.stream); });
        }
        if (what == "compile")
            took = b.times(d, list, rounds, [&] {
                Graph g(b, list);
                g.launch(b.stream);
                OK(cudaStreamSynchronize(b.stream));
                return g.compiled;
            });
        if (what == "submit") took = submits(b, rounds, [&] { b.by_loop(list); });
        if (what == "ordinary" && d != d2d) took = b.times(d, list, rounds, [&] { return by_ordinary(d, list[0]); });
        if (took.empty()) {
            std::printf("error no such request: %s %s\n", what.c_str(), way.c_str());
            continue;
        }
        for (size_t i = 0; i < took.size(); i++) std::printf("%s%.3f", i ? " " : "", took[i] * 1e6);
        std::printf("\n");
    }
}

}  // namespace

int main(int argc, char **argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: bench copy.ptx [sweep | serve MiB]\n");
        return 2;
    }
    setvbuf(stdout, nullptr, _IOLBF, 0);
    OK(cudaSetDevice(0));
    OK(cudaFree(nullptr));
    if (argc > 3 && std::strcmp(argv[2], "serve") == 0) {
        cudaDeviceProp gpu;
        OK(cudaGetDeviceProperties(&gpu, 0));
        Bench b(argv[1], gpu, size_t(std::atoi(argv[3])) << 20);
        serve(b);
        return 0;
    }
    cudaDeviceProp gpu = describe();
    Bench b(argv[1], gpu, (size_t(1) << 30) + slack);
    if (argc > 2) {
        sweep(b);
        return 0;
    }
    bulk(b);
    calls(b);
    descriptors(b);
    batches(b);
    rows_of_batches(b);
}
