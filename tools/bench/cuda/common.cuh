// What the two programs here share: the kernels under test, loaded from their PTX as the driver loads them.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

inline void check(cudaError_t e, const char *what) {
    if (e == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s (%s)\n", what, cudaGetErrorName(e), cudaGetErrorString(e));
    std::exit(1);
}

inline void check(CUresult e, const char *what) {
    if (e == CUDA_SUCCESS) return;
    const char *name = "?";
    cuGetErrorName(e, &name);
    std::fprintf(stderr, "%s: %s\n", what, name);
    std::exit(1);
}

#define OK(call) check(call, #call)

enum Direction { h2d, d2h, d2d };
inline const char *name(Direction d) { return d == h2d ? "H2D" : d == d2h ? "D2H" : "D2D"; }

struct Segment {
    uint64_t dst, src, bytes;
};

// Piece is an entry of the table: in each word 48 bits of an address, 10 of the length, and 6 of the tag.
struct Piece {
    uint64_t to, from;
};

inline Piece pack(uint64_t dst, uint64_t src, uint64_t n, uint64_t tag) {
    return {dst | n << 54 >> 6 | tag << 58, src | n >> 10 << 48 | tag << 58};
}

// Table is pinned memory for pieces, with the tag of those that are in it.
struct Table {
    Piece *at;
    size_t room;
    unsigned tag = 0;

    // next makes it ready for others.
    void next() {
        if (tag = tag % 63 + 1; tag == 1) std::memset(at, 0, room * sizeof(Piece));
    }
};

// Few is a batch that goes along with the launch; copy.cu explains it.
struct Few {
    uint32_t count, size;
    uint64_t dst[160], src[160];
    uint32_t bytes[160], begin[161];
};

constexpr unsigned threads = 256, warps = threads / 32;

// Plan says how a batch runs. It has the rules of package kernels, where they are explained.
struct Plan {
    unsigned blocks;  // at most
    uint64_t piece;   // bytes, at most
    unsigned run = 0; // pieces a warp takes at a time; 0: by their number

    Plan(unsigned blocks, unsigned run, uint64_t piece) : blocks(blocks), piece(piece), run(run) {}

    Plan(Direction d, uint64_t bytes, unsigned sms) {
        blocks = d == d2d ? 2 * sms : std::min(sms, 32u);
        uint64_t share = bytes / (blocks * warps), most = d == d2d ? 256 << 10 : 64 << 10;
        for (piece = 2048; piece * 2 <= share && piece < most;) piece *= 2;
    }

    // fill writes the table and says how many entries it has. Later pieces of a segment begin on a 128-byte line.
    size_t fill(const Table &table, const std::vector<Segment> &list) const {
        const uint64_t most = piece, tag = table.tag;
        Piece *at = table.at;
        for (const Segment &s : list) {
            uint64_t dst = s.dst, src = s.src, left = s.bytes;
            while (left > most) {
                uint64_t n = most - (dst & 127);
                *at++ = pack(dst, src, n, tag);
                dst += n, src += n, left -= n;
            }
            *at++ = pack(dst, src, left, tag);
        }
        return size_t(at - table.at);
    }

    // grid is what count entries are launched with.
    void grid(size_t count, unsigned &grid_blocks, unsigned &grid_run) const {
        grid_run = run;
        if (run == 0)
            for (grid_run = 1; grid_run < 32 && grid_run * 2 * 2 * warps * blocks <= count;) grid_run *= 2;
        grid_blocks = unsigned(std::min<size_t>(blocks, (count + grid_run * warps - 1) / (grid_run * warps)));
    }
};

// Kernels are the functions of copy.ptx.
struct Kernels {
    CUfunction gather, few, descriptor, offset, move;

    explicit Kernels(const char *file) {
        std::ifstream in(file);
        std::string text{std::istreambuf_iterator<char>(in), {}};
        if (text.empty()) {
            std::fprintf(stderr, "%s: cannot be read\n", file);
            std::exit(1);
        }
        CUmodule module;
        OK(cuModuleLoadData(&module, text.c_str()));
        OK(cuModuleGetFunction(&gather, module, "ropeway_gather"));
        OK(cuModuleGetFunction(&few, module, "ropeway_few"));
        OK(cuModuleGetFunction(&descriptor, module, "ropeway_descriptor"));
        OK(cuModuleGetFunction(&offset, module, "ropeway_offset"));
        OK(cuModuleGetFunction(&move, module, "ropeway_move"));
    }

    // launch is for count pieces of a table, which may be written later.
    void launch(const Plan &p, const Table &table, size_t count, cudaStream_t stream) const {
        unsigned n = unsigned(count), blocks, run;
        p.grid(count, blocks, run);
        void *args[] = {(void *)&table.at, &n, &run, (void *)&table.tag};
        OK(cuLaunchKernel(gather, blocks, 1, 1, threads, 1, 1, 0, stream, args, nullptr));
    }

    // batch copies a list as the driver does: a few with the launch, others by a table that is written when the kernel is on its way,
    // if the number of pieces is known then.
    void batch(const Plan &p, Table &table, const std::vector<Segment> &list, cudaStream_t stream) const {
        if (list.size() <= 160) return launch_few(p, list, stream);
        table.next();
        bool known = std::all_of(list.begin(), list.end(), [&](const Segment &s) { return s.bytes <= p.piece; });
        if (known) launch(p, table, list.size(), stream);
        size_t n = p.fill(table, list);
        if (!known) launch(p, table, n, stream);
    }

    void launch_few(const Plan &p, const std::vector<Segment> &list, cudaStream_t stream) const {
        Few f;
        f.count = uint32_t(list.size()), f.size = uint32_t(p.piece);
        uint32_t parts = 0;
        for (size_t i = 0; i < list.size(); i++) {
            const Segment &s = list[i];
            f.dst[i] = s.dst, f.src[i] = s.src, f.bytes[i] = uint32_t(s.bytes), f.begin[i] = parts;
            parts += uint32_t(((s.dst & 127) + s.bytes + p.piece - 1) / p.piece);
        }
        f.begin[list.size()] = parts;
        void *args[] = {&f};
        unsigned blocks = std::max(1u, std::min(p.blocks, (parts + warps - 1) / warps));
        OK(cuLaunchKernel(few, blocks, 1, 1, threads, 1, 1, 0, stream, args, nullptr));
    }
};

template <class T>
T *pinned(size_t n) {
    void *p;
    OK(cudaHostAlloc(&p, n * sizeof(T), cudaHostAllocPortable | cudaHostAllocMapped));
    return static_cast<T *>(p);
}

template <class T>
T *on_device(size_t n) {
    void *p;
    OK(cudaMalloc(&p, n * sizeof(T)));
    return static_cast<T *>(p);
}

inline Table new_table(size_t room) {
    Table t{pinned<Piece>(room), room};
    return t;
}

inline double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

inline double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

// describe names the machine.
inline cudaDeviceProp describe() {
    cudaDeviceProp p;
    OK(cudaGetDeviceProperties(&p, 0));
    int driver, runtime;
    OK(cudaDriverGetVersion(&driver));
    OK(cudaRuntimeGetVersion(&runtime));
    std::printf("%s, %d multiprocessors, compute %d.%d, CUDA driver %d, runtime %d\n", p.name, p.multiProcessorCount, p.major,
                p.minor, driver, runtime);
    return p;
}
