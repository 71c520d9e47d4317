// Compares what the kernels of internal/driver/cuda/kernels do with a model on the CPU, byte by byte over whole buffers:
//
//   verify PTX SECONDS [SEED]
//
// every pair of alignments at every small size in every direction; random batches on 8 streams, several in flight on each, with
// random plans, for SECONDS; descriptor and offset copies, right, overlapping and wrong.
#include <numeric>
#include <thread>

#include "common.cuh"

namespace {

using Bytes = std::vector<uint8_t>;
using Random = std::mt19937_64;

struct Failure {
    std::string what;
};

void same(const uint8_t *is, const Bytes &want, const std::string &what) {
    if (std::memcmp(is, want.data(), want.size()) == 0) return;
    size_t i = 0;
    while (is[i] == want[i]) i++;
    throw Failure{what + ": byte " + std::to_string(i) + " is " + std::to_string(is[i]) + ", not " + std::to_string(want[i])};
}

void randomise(uint8_t *at, size_t n, Random &random) {
    for (size_t i = 0; i + 8 <= n; i += 8) {
        uint64_t v = random();
        std::memcpy(at + i, &v, 8);
    }
}

// Area is memory under test and the model of it.
struct Area {
    uint8_t *at;
    Bytes model;

    Area(uint8_t *at, size_t n, Random &random) : at(at), model(n) {
        randomise(model.data(), n, random);
        OK(cudaMemcpy(at, model.data(), n, cudaMemcpyDefault));
    }

    void verify(const std::string &what) const {
        Bytes is(model.size());
        OK(cudaMemcpy(is.data(), at, is.size(), cudaMemcpyDefault));
        same(is.data(), model, what);
    }
};

void copy_model(Area &dst, const Area &src, const std::vector<Segment> &list) {
    for (const Segment &s : list)
        std::memcpy(&dst.model[s.dst - uint64_t(dst.at)], &src.model[s.src - uint64_t(src.at)], s.bytes);
}

// alignments copies one segment for each of the 256 pairs of alignments in one batch.
size_t alignments(const Kernels &k, Random &random) {
    const size_t room = 256 * 5120 + 256;
    Area host(pinned<uint8_t>(room), room, random), out(pinned<uint8_t>(room), room, random);
    Area one(on_device<uint8_t>(room), room, random), two(on_device<uint8_t>(room), room, random);
    Table table = new_table(1 << 16);
    struct {
        Area *dst, *src;
        const char *what;
    } ways[] = {{&one, &host, "H2D"}, {&two, &one, "D2D"}, {&out, &two, "D2H"}};
    std::vector<size_t> sizes(100);
    std::iota(sizes.begin(), sizes.end(), 1);
    for (size_t n : {127, 128, 129, 255, 256, 257, 500, 512, 513, 1023, 1040, 2047, 2048, 2049, 4095, 4096, 4097, 5000})
        sizes.push_back(n);
    size_t batches = 0;
    for (size_t n : sizes)
        for (auto &w : ways)
            for (unsigned run : {1u, 4u, 32u}) {
                size_t slot = (n + 15) / 16 * 16 + 48;
                std::vector<Segment> list;
                for (size_t i = 0; i < 256; i++)
                    list.push_back({uint64_t(w.dst->at) + 64 + i * slot + i % 16, uint64_t(w.src->at) + 64 + i * slot + i / 16, n});
                std::shuffle(list.begin(), list.end(), random);
                Plan p(unsigned(1 + random() % 40), run, n > 1000 && run == 4 ? 512 : 16 << 10);
                k.batch(p, table, list, nullptr);
                OK(cudaDeviceSynchronize());
                copy_model(*w.dst, *w.src, list);
                w.dst->verify(std::string(w.what) + ", " + std::to_string(n) + " bytes, run " + std::to_string(run));
                batches++;
            }
    return batches;
}

// line is one stream's share of the random batches: host to device, device to device, device to host, none waiting for the host.
void line(const Kernels &k, uint64_t seed, double seconds, size_t *batches, uint64_t *bytes, std::string *failure) try {
    OK(cudaSetDevice(0));
    Random random(seed);
    const size_t room = 24 << 20, flights = 6, most = 400;
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    Area in(pinned<uint8_t>(room), room, random), out(pinned<uint8_t>(room), room, random);
    Area one(on_device<uint8_t>(room), room, random), two(on_device<uint8_t>(room), room, random);
    std::vector<Table> table;
    for (size_t f = 0; f < flights; f++) table.push_back(new_table(1 << 18));
    for (double stop = now() + seconds; now() < stop;) {
        for (size_t f = 0; f < flights; f++) {
            Area *dst[] = {&one, &two, &out, &one}, *src[] = {&in, &one, &two, &two};
            size_t way = random() % 4, n = 1 + random() % most, at = random() % 64;
            int largest = int(random() % 21);  // bits
            std::vector<Segment> list;
            while (list.size() < n) {
                uint64_t size = 1 + random() % (2ull << random() % (largest + 1));
                size = std::min<uint64_t>(size, 1 << 20);
                if (at + size > room) break;
                list.push_back({uint64_t(dst[way]->at) + at, uint64_t(src[way]->at) + random() % (room - size), size});
                at += size + (random() % 2 ? 0 : random() % 40);
            }
            std::shuffle(list.begin(), list.end(), random);
            Plan p(unsigned(1 + random() % (random() % 2 ? 1056 : 64)), 1u << random() % 6, 256ull << random() % 12);
            k.batch(p, table[f], list, stream);
            copy_model(*dst[way], *src[way], list);
            for (const Segment &s : list) *bytes += s.bytes;
            ++*batches;
        }
        OK(cudaStreamSynchronize(stream));
        Bytes is(room);
        for (Area *a : {&one, &two, &out}) {
            OK(cudaMemcpyAsync(is.data(), a->at, room, cudaMemcpyDefault, stream));
            OK(cudaStreamSynchronize(stream));
            same(is.data(), a->model, "random batches, seed " + std::to_string(seed));
        }
    }
} catch (const Failure &f) {
    *failure = f.what;
}

struct Live {
    uint64_t count;
    struct {
        uint64_t start, end;
    } ranges[5000];
};

// indirect runs descriptor and offset copies: between two areas, inside one with overlap, onto the descriptor itself, and wrong ones.
size_t indirect(const Kernels &k, Random &random) {
    const size_t room = 4 << 20;
    Area one(on_device<uint8_t>(room), room, random), two(on_device<uint8_t>(room), room, random);
    uint8_t *found = on_device<uint8_t>(32);
    uint32_t *report = pinned<uint32_t>(1);
    uint64_t *current = pinned<uint64_t>(1);
    Live *live = pinned<Live>(1);
    *current = uint64_t(live);
    const uint32_t layouts[2][3] = {{12, 16, 24}, {48, 32, 40}};  // length, source, destination
    size_t done = 0;
    for (int i = 0; i < 3000; i++) {
        // Ranges that are in nobody's way, and the two areas where they belong.
        uint64_t lower = std::min(uint64_t(one.at), uint64_t(two.at)), upper = std::max(uint64_t(one.at), uint64_t(two.at));
        uint64_t below = random() % 3 ? random() % 4 : random() % 2000, above = random() % 3 ? random() % 4 : random() % 2000;
        uint64_t n = 0;
        for (uint64_t j = 0; j < below; j++) live->ranges[n++] = {4096 * (j + 1), 4096 * (j + 1) + 1 + random() % 4096};
        live->ranges[n++] = {lower, lower + room};
        live->ranges[n++] = {upper, upper + room};
        for (uint64_t j = 0, at = upper + room; j < above; j++, at += 4096) live->ranges[n++] = {at, at + 1 + random() % 4096};
        live->count = n;

        Area &dst = random() % 2 ? one : two, &src = random() % 4 ? (&dst == &one ? two : one) : dst;
        uint64_t size = random() % (1ull << (1 + random() % 21));
        uint64_t to = random() % (room - size), from = random() % (room - size);  // in their areas
        if (&dst == &src && random() % 2) from = std::min<uint64_t>(room - size - 1, to + random() % 600);
        if (&dst == &src && random() % 2) std::swap(from, to);
        uint32_t want = uint32_t(std::max<int>(0, int(random() % 12) - 9));
        if (want) size = std::max<uint64_t>(size, 8);
        if (want == 1) from = random() % 2 ? room - size + 1 + random() % 3 : 100 - uint64_t(src.at);
        if (want == 2) to = random() % 2 ? room - size + 1 + random() % 3 : 100 - uint64_t(dst.at);
        uint64_t at = 64 * (random() % (room / 64)), dst_at = uint64_t(dst.at) + to, src_at = uint64_t(src.at) + from;
        bool descriptor = random() % 2;
        auto poke = [&](uint64_t offset, uint64_t value, size_t bytes) {
            std::memcpy(&dst.model[at + offset], &value, bytes);
            OK(cudaMemcpy(dst.at + at + offset, &value, bytes, cudaMemcpyHostToDevice));
        };
        *report = 77;
        uint64_t cell = uint64_t(dst.at) + at;
        if (descriptor) {
            const uint32_t *l = layouts[random() % 2];
            uint32_t length_at = l[0], source_at = l[1], target_at = l[2];
            poke(length_at, size, 4), poke(source_at, src_at, 8), poke(target_at, dst_at, 8);
            void *args[] = {&cell, &length_at, &source_at, &target_at, &current, &found, &report};
            OK(cuLaunchKernel(k.descriptor, 1, 1, 1, 32, 1, 1, 0, nullptr, args, nullptr));
        } else {
            uint64_t dst_offset = random() % 1000, src_offset = random() % 1000, other = cell + 8;
            poke(0, dst_at - dst_offset, 8), poke(8, src_at - src_offset, 8);
            void *args[] = {&cell, &other, &dst_offset, &src_offset, &size, &current, &found, &report};
            OK(cuLaunchKernel(k.offset, 1, 1, 1, 32, 1, 1, 0, nullptr, args, nullptr));
        }
        void *args[] = {&found};
        OK(cuLaunchKernel(k.move, unsigned(1 + random() % 264), 1, 1, threads, 1, 1, 0, nullptr, args, nullptr));
        OK(cudaDeviceSynchronize());
        std::string what = "indirect copy " + std::to_string(i) + " of " + std::to_string(size) + " bytes";
        if (*report != want) throw Failure{what + ": status " + std::to_string(*report) + ", not " + std::to_string(want)};
        if (want == 0) std::memmove(&dst.model[to], &src.model[from], size);
        if (i % 8 == 7 || &dst == &src) one.verify(what), two.verify(what);
        done++;
    }
    return done;
}

}  // namespace

int main(int argc, char **argv) try {
    if (argc < 3) {
        std::fprintf(stderr, "usage: verify copy.ptx seconds [seed]\n");
        return 2;
    }
    double seconds = std::atof(argv[2]);
    uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : std::random_device{}();
    OK(cudaSetDevice(0));
    OK(cudaFree(nullptr));
    describe();
    std::printf("seed %llu\n", (unsigned long long)seed);
    Kernels k(argv[1]);
    Random random(seed);
    std::printf("alignments: %zu batches right\n", alignments(k, random));
    std::printf("descriptors and offsets: %zu right\n", indirect(k, random));
    const int lines = 8;
    size_t batches[lines] = {};
    uint64_t bytes[lines] = {};
    std::string failures[lines];
    std::vector<std::thread> all;
    for (int i = 0; i < lines; i++) all.emplace_back(line, std::cref(k), seed + i, seconds, &batches[i], &bytes[i], &failures[i]);
    for (auto &t : all) t.join();
    for (auto &f : failures)
        if (!f.empty()) throw Failure{f};
    std::printf("random batches: %zu on %d streams, %.1f GB, right\n", std::accumulate(batches, batches + lines, size_t(0)), lines,
                double(std::accumulate(bytes, bytes + lines, uint64_t(0))) / 1e9);
    return 0;
} catch (const Failure &f) {
    std::printf("WRONG: %s\n", f.what.c_str());
    return 1;
}
