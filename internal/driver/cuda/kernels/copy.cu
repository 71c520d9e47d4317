// The copies that the copy engines are bad at: many small pieces at once, and copies whose addresses are known only when
// they run. copy.ptx is made from this file by ptx.sh; kernels.go describes the parameters.
//
// Work is counted in units: the aligned 16 bytes of the destination that a lane writes with one store. The units of all
// pieces that a warp has in hand are numbered through, and neighbouring lanes take neighbouring units, so that small
// pieces fill a warp as well as large ones do. The source is read in aligned 16-byte granules, only ones that hold at least one
// byte of the piece: such a read never leaves the page. If source and destination are not congruent, a unit is cut out of
// two granules; the second comes from the next lane where it has it.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

namespace {

constexpr u32 everyone = 0xffffffff;
constexpr u32 lanes = 32;
constexpr u32 warps = 8;           // of a block
constexpr u32 depth = 4;           // units a lane has in flight
constexpr u32 chunk = 16 << 10;    // bytes of one copy that a warp takes at a time
constexpr u64 low48 = (1ull << 48) - 1;

__device__ __forceinline__ u32 lane_number() { return threadIdx.x % lanes; }

template <class T>
__device__ __forceinline__ T from_lane(T value, u32 lane) { return __shfl_sync(everyone, value, lane); }

__device__ __forceinline__ uint4 load(u64 addr) { return *reinterpret_cast<const uint4 *>(addr); }

__device__ __forceinline__ uint4 next_lane(uint4 v) {
    return make_uint4(__shfl_down_sync(everyone, v.x, 1), __shfl_down_sync(everyone, v.y, 1),
                      __shfl_down_sync(everyone, v.z, 1), __shfl_down_sync(everyone, v.w, 1));
}

struct Piece {
    u64 dst, src;
    u32 bytes;

    __device__ __forceinline__ u32 units() const { return bytes ? (u32(dst & 15) + bytes + 15) / 16 : 0; }
    __device__ __forceinline__ bool congruent() const { return ((dst ^ src) & 15) == 0; }
};

// Unit is one unit of a piece: where it goes, which of its 16 bytes belong to the piece, and where they come from.
struct Unit {
    u64 to;         // multiple of 16
    u64 granule;    // of the source, the first of the two that hold the unit
    u32 shift;      // of the unit in its granules, 0 to 15
    u32 low, high;  // bytes low to high of the unit are written
    bool first, second;  // which granules have to be read

    __device__ __forceinline__ Unit() : to(0), granule(0), shift(0), low(0), high(0), first(false), second(false) {}

    __device__ __forceinline__ Unit(const Piece &p, u32 number) {
        to = (p.dst & ~15ull) + u64(number) * 16;
        u64 at = p.src + (to - p.dst);  // before src, by less than 16, in a first unit
        shift = u32(at) & 15;
        granule = at - shift;
        u64 end = p.dst + p.bytes;
        low = to < p.dst ? u32(p.dst - to) : 0;
        high = to + 16 > end ? u32(end - to) : 16;
        first = granule + 16 > p.src && granule < p.src + p.bytes;
        second = shift != 0 && granule + 16 < p.src + p.bytes;
    }
};

// cut is the 16 bytes that begin shift bytes into a.
__device__ __forceinline__ uint4 cut(uint4 a, uint4 b, u32 shift) {
    u32 w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 6; i++) w[i] = shift & 8 ? w[i + 2] : w[i];
#pragma unroll
    for (int i = 0; i < 5; i++) w[i] = shift & 4 ? w[i + 1] : w[i];
    u32 bits = (shift & 3) * 8;
    return make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
                      __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits));
}

// put writes a unit of each lane; the whole warp takes part. Bytes of a unit that is not whole are written by 16 lanes, a
// byte each, in one instruction: it leaves the GPU as one write, where one lane alone would make several.
__device__ __forceinline__ void put(const Unit &u, uint4 v) {
    bool whole = u.high - u.low == 16;
    if (whole) *reinterpret_cast<uint4 *>(u.to) = v;
    u32 mine = lane_number() % 16;
    for (u32 left = __ballot_sync(everyone, !whole && u.low < u.high); left;) {
        u32 owner = __ffs(left) - 1;  // of the unit that the first 16 lanes write
        left &= left - 1;
        bool idle = lane_number() >= 16 && !left;
        if (lane_number() >= 16 && left) owner = __ffs(left) - 1;
        left &= left - 1;
        u64 to = from_lane(u.to, owner);
        u32 span = from_lane(u.low | u.high << 8, owner);
        u32 x = from_lane(v.x, owner), y = from_lane(v.y, owner), z = from_lane(v.z, owner), w = from_lane(v.w, owner);
        u32 word = mine < 8 ? (mine < 4 ? x : y) : (mine < 12 ? z : w);
        if (!idle && mine >= (span & 255) && mine < span >> 8) *reinterpret_cast<u8 *>(to + mine) = u8(word >> mine % 4 * 8);
    }
}

// walk copies the units of the pieces that lanes 0 to run-1 hold. end is the number of units up to and with the lane's
// own piece, total that of the last. Shifted says that some piece is not congruent.
template <bool Shifted>
__device__ __forceinline__ void walk(const Piece &mine, u32 end, u32 total, u32 run) {
    u32 lane = lane_number();
    for (u32 start = 0; start < total; start += lanes * depth) {
        Unit unit[depth];
        uint4 a[depth] = {}, b[depth] = {};
        bool own[depth];  // the second granule is not the next lane's first
#pragma unroll
        for (u32 i = 0; i < depth; i++) {
            u32 number = start + i * lanes + lane;
            u32 at = 0;  // the piece with this unit: the first whose end is beyond it
            for (u32 step = run / 2; step; step /= 2)
                if (from_lane(end, at + step - 1) <= number) at += step;
            Piece p = {from_lane(mine.dst, at), from_lane(mine.src, at), from_lane(mine.bytes, at)};
            u32 stop = from_lane(end, at);
            unit[i] = number < total ? Unit(p, number - (stop - p.units())) : Unit();
            own[i] = lane == lanes - 1 || number + 1 == stop;
            if (unit[i].first) a[i] = load(unit[i].granule);
            if (Shifted && own[i] && unit[i].second) b[i] = load(unit[i].granule + 16);
        }
#pragma unroll
        for (u32 i = 0; i < depth; i++) {
            if (Shifted) {
                uint4 next = next_lane(a[i]);
                if (!own[i]) b[i] = next;
                if (unit[i].shift) a[i] = cut(a[i], b[i], unit[i].shift);
            }
            put(unit[i], a[i]);
        }
    }
}

// copy_pieces copies what lanes 0 to run-1 hold; run is a power of two. The whole warp takes part.
__device__ __forceinline__ void copy_pieces(const Piece &mine, u32 run) {
    u32 end = mine.units();
    for (u32 step = 1; step < run; step *= 2) {
        u32 before = __shfl_up_sync(everyone, end, step);
        if (lane_number() >= step) end += before;
    }
    u32 total = from_lane(end, run - 1);
    if (__any_sync(everyone, mine.bytes && !mine.congruent()))
        walk<true>(mine, end, total, run);
    else
        walk<false>(mine, end, total, run);
}

// copy_part copies part number of a longer copy that is cut into parts at multiples of size, which is one of 128.
__device__ __forceinline__ void copy_part(u64 dst, u64 src, u64 bytes, u64 number, u64 size) {
    u64 at = (dst & ~127ull) + number * size;
    u64 from = max(at, dst), to = min(at + size, dst + bytes);
    copy_pieces({from, src + (from - dst), u32(to - from)}, 1);
}

}  // namespace

// Entry is a piece in the table: 48 bits of an address, 10 of the length and 6 of a tag in each word. It is outside the
// namespace because its name is part of a name in the PTX, turn of ropeway_gather; of an unnamed namespace nvcc would
// add a hash of this file's path.
struct Entry {
    u64 to, from;

    __device__ __forceinline__ bool has(u32 tag) const { return u32(to >> 58) == tag && u32(from >> 58) == tag; }
    __device__ __forceinline__ Piece piece() const {
        return {to & low48, from & low48, (u32(to >> 48) & 1023) | (u32(from >> 48) & 1023) << 10};
    }
};

namespace {

// look reads an entry as it is now; the host may be writing it.
__device__ __forceinline__ Entry look(const Entry *at) {
    Entry e;
    asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(e.to), "=l"(e.from) : "l"(at) : "memory");
    return e;
}

// Found is a copy whose addresses were read when it ran.
struct Found {
    u64 dst, src, bytes;
    u32 status, unused;
};

enum Status : u32 { good = 0, bad_source = 1, bad_destination = 2 };

struct Range {
    u64 start, end;
};

// Live is the device memory there is, sorted.
struct Live {
    u64 count;
    Range ranges[1];
};

__device__ u64 little_endian(const u8 *at, u32 bytes) {
    u64 value = 0;
    for (u32 i = 0; i < bytes; i++) value |= u64(at[i]) << i * 8;
    return value;
}

// is_live tells whether bytes from addr on lie in one range. The warp looks at 32 ranges at a time.
__device__ bool is_live(const Live *live, u64 addr, u64 bytes) {
    u64 first = 0, last = live->count;
    if (last == 0) return false;
    do {
        u64 step = (last - first + lanes - 1) / lanes;
        u64 mine = first + lane_number() * step;
        u32 below = __popc(__ballot_sync(everyone, mine < last && live->ranges[mine].start <= addr));
        if (below == 0) return false;
        first += (below - 1) * step;
        last = min(last, first + step);
    } while (last - first > 1);
    Range r = live->ranges[first];
    return addr < r.end && bytes <= r.end - addr;
}

// settle judges a copy that one warp has read, leaves it for ropeway_move, and reports to the host.
__device__ void settle(Found copy, const u64 *current, Found *found, volatile u32 *report) {
    const Live *live = reinterpret_cast<const Live *>(*reinterpret_cast<const volatile u64 *>(current));
    copy.status = !is_live(live, copy.src, copy.bytes)   ? bad_source
                  : !is_live(live, copy.dst, copy.bytes) ? bad_destination
                                                         : good;
    if (lane_number() == 0) {
        *found = copy;
        *report = copy.status;
    }
}

// slide copies one range onto another that it overlaps: a block alone, from the end that is not written first, everything
// of a step read before anything of it is written.
__device__ void slide(u64 dst, u64 src, u64 bytes) {
    const u64 step = warps * lanes * 16;
    u64 base = dst & ~15ull;
    u64 steps = (dst + bytes - base + step - 1) / step;
    for (u64 i = 0; i < steps; i++) {
        u64 from = base + (dst < src ? i : steps - 1 - i) * step;
        u64 begin = max(from, dst), end = min(from + step, dst + bytes);
        Piece p = {begin, src + (begin - dst), u32(end - begin)};
        Unit u;
        uint4 a = {}, b = {};
        if (threadIdx.x < p.units()) u = Unit(p, threadIdx.x);
        if (u.first) a = load(u.granule);
        if (u.second) b = load(u.granule + 16);
        __syncthreads();
        put(u, u.shift ? cut(a, b, u.shift) : a);
        __syncthreads();
    }
}

}  // namespace

// ropeway_gather copies count pieces. A block takes run pieces for each of its warps at a time, reads them from the table in
// one go, and the next ones while it copies. It may start before the host has written the table: an entry is there when both words have
// the tag, and is waited for.
extern "C" __global__ void __launch_bounds__(256) ropeway_gather(const Entry *table, u32 count, u32 run, u32 tag) {
    __shared__ Entry turn[2][warps * lanes];
    u32 thread = threadIdx.x, taken = run * warps, stride = gridDim.x * taken;
    bool reader = thread < taken;
    u32 start = blockIdx.x * taken;
    Entry next = {};
    if (reader && start + thread < count) next = look(table + start + thread);
    for (u32 side = 0; start < count; start += stride, side ^= 1) {
        if (reader) {
            if (start + thread < count)
                while (!next.has(tag)) next = look(table + start + thread);
            turn[side][thread] = next;
        }
        __syncthreads();
        next = {};
        if (reader && start + stride + thread < count) next = look(table + start + stride + thread);
        Piece mine = {};
        if (lane_number() < run) mine = turn[side][thread / lanes * run + lane_number()].piece();
        copy_pieces(mine, run);
    }
}

// Few is a batch that goes along with the launch. Segments are cut into parts of size bytes; begin counts the parts before each.
constexpr u32 most_few = 160;
struct Few {
    u32 count, size;
    u64 dst[most_few], src[most_few];
    u32 bytes[most_few], begin[most_few + 1];
};

// ropeway_few copies a batch of few segments, a part for each warp at a time.
extern "C" __global__ void __launch_bounds__(256) ropeway_few(const Few few) {
    u32 parts = few.begin[few.count];
    for (u32 number = blockIdx.x * warps + threadIdx.x / lanes; number < parts; number += gridDim.x * warps) {
        u32 at = 0;  // the segment with this part: the last that does not begin behind it
        for (u32 step = 128; step; step /= 2)
            if (at + step < few.count && few.begin[at + step] <= number) at += step;
        copy_part(few.dst[at], few.src[at], few.bytes[at], number - few.begin[at], few.size);
    }
}

// ropeway_descriptor reads a copy descriptor, one warp.
extern "C" __global__ void __launch_bounds__(32)
    ropeway_descriptor(const u8 *descriptor, u32 length_at, u32 src_at, u32 dst_at, const u64 *current, Found *found, u32 *report) {
    Found copy = {little_endian(descriptor + dst_at, 8), little_endian(descriptor + src_at, 8),
                  little_endian(descriptor + length_at, 4), 0, 0};
    settle(copy, current, found, report);
}

// ropeway_offset reads the two cells of an offset copy, one warp.
extern "C" __global__ void __launch_bounds__(32)
    ropeway_offset(const u8 *dst_cell, const u8 *src_cell, u64 dst_offset, u64 src_offset, u64 bytes, const u64 *current,
                   Found *found, u32 *report) {
    Found copy = {little_endian(dst_cell, 8) + dst_offset, little_endian(src_cell, 8) + src_offset, bytes, 0, 0};
    settle(copy, current, found, report);
}

// ropeway_move copies what was found, any number of blocks. It comes after the kernel that found it, so that a copy onto its own
// descriptor is one copy all the same.
extern "C" __global__ void __launch_bounds__(256) ropeway_move(const Found *found) {
    Found c = *found;
    if (c.status != good || c.bytes == 0 || c.dst == c.src) return;
    if (c.dst < c.src + c.bytes && c.src < c.dst + c.bytes) {
        if (blockIdx.x == 0) slide(c.dst, c.src, c.bytes);
        return;
    }
    u64 parts = ((c.dst & 127) + c.bytes + chunk - 1) / chunk;
    for (u64 number = u64(blockIdx.x) * warps + threadIdx.x / lanes; number < parts; number += u64(gridDim.x) * warps)
        copy_part(c.dst, c.src, c.bytes, number, chunk);
}
