import Foundation
import StorePlatform
import Testing

@testable import StoreCrypto

@Suite("The heap for secrets")
struct SecureHeapTests {
    @Test("runs of blocks are handed out once, freed in any order, and join again")
    func freeBlocks() {
        let blockCount = 200
        let given = ProcessInfo.processInfo.environment["CIPHERSTORE_SEED"].flatMap(UInt64.init)
        let seed = given ?? .random(in: 0 ... .max)
        var generator = SplitMix(state: seed)
        var free = FreeBlocks(count: blockCount)
        var taken: [Range<Int>] = []
        var owned = [Bool](repeating: false, count: blockCount)
        for _ in 0..<5000 {
            if Bool.random(using: &generator), let wanted = (1...40).randomElement(using: &generator) {
                let longest = owned.split(separator: true).map(\.count).max() ?? 0
                guard let blocks = free.take(wanted) else {
                    #expect(longest < wanted, "seed \(seed)")
                    continue
                }
                #expect(blocks.count == wanted && !owned[blocks].contains(true), "seed \(seed)")
                owned.replaceSubrange(blocks, with: repeatElement(true, count: wanted))
                taken.append(blocks)
            } else if let index = taken.indices.randomElement(using: &generator) {
                let blocks = taken.remove(at: index)
                free.free(blocks)
                owned.replaceSubrange(blocks, with: repeatElement(false, count: blocks.count))
            }
            #expect(free.runs.flatMap { $0 } == owned.indices.filter { !owned[$0] }, "seed \(seed)")
        }
        for blocks in taken { free.free(blocks) }
        #expect(free == FreeBlocks(count: blockCount))
        for impossible in [0, -1, blockCount + 1] {
            let none = free.take(impossible)
            #expect(none == nil)
        }
    }

    @Test("blocks that are free already cannot be freed")
    func doubleFree() async {
        await #expect(processExitsWith: .failure) {
            var free = FreeBlocks(count: 8)
            _ = free.take(4)
            free.free(0..<4)
            free.free(0..<4)
        }
        await #expect(processExitsWith: .failure) {
            var free = FreeBlocks(count: 8)
            _ = free.take(4)
            free.free(3..<5)
        }
    }

    @Test("a secret lies alone at an aligned place, is wiped when it is freed, and a full heap says so")
    func allocation() throws {
        let pages = try #require(LockedPages(byteCount: 1))
        let heap = SecureHeap(pages)
        var addresses: [UnsafeMutableRawPointer] = []
        while let address = heap.allocate(33) {
            #expect(Int(bitPattern: address) % 16 == 0)
            memset(address, Int32(addresses.count + 1), 33)
            addresses.append(address)
        }
        #expect(addresses.count == pages.byteCount / 48)
        for (index, address) in addresses.enumerated() {
            let held = UnsafeRawBufferPointer(start: address, count: 33)
            #expect(held.allSatisfy { $0 == UInt8(truncatingIfNeeded: index + 1) })
        }
        for address in addresses.shuffled() {
            let isOurs = heap.wipeAndFree(address, 33)
            #expect(isOurs)
        }
        #expect(UnsafeRawBufferPointer(start: pages.start, count: pages.byteCount).allSatisfy { $0 == 0 })
        let (whole, more) = (heap.allocate(pages.byteCount), heap.allocate(1))
        #expect(whole == pages.start && more == nil)

        let foreign = UnsafeMutableRawPointer.allocate(byteCount: 16, alignment: 16)
        defer { foreign.deallocate() }
        foreign.storeBytes(of: 7, as: UInt8.self)
        let isOurs = heap.wipeAndFree(foreign, 16)
        #expect(!isOurs)
        #expect(foreign.load(as: UInt8.self) == 7)
    }

    @Test("the page in front of the secrets and the page after them cannot be read")
    func guards() async {
        await #expect(processExitsWith: .signal(SIGSEGV)) {
            let pages = try #require(LockedPages(byteCount: 1))
            exit(Int32((pages.start - 1).load(as: UInt8.self)))
        }
        await #expect(processExitsWith: .signal(SIGSEGV)) {
            let pages = try #require(LockedPages(byteCount: 1))
            exit(Int32((pages.start + pages.byteCount).load(as: UInt8.self)))
        }
    }

    #if os(Linux)
        @Test("the kernel keeps the pages of secrets off swap and out of core dumps")
        func protections() throws {
            let pages = try #require(LockedPages(byteCount: 3 << 12))
            // "7f0000000000-7f0000003000 rw-p ...", then lines of one property each.
            let text = try Files.contents(of: "/proc/self/smaps", limitBytes: 64 << 20)
            let lines = String(decoding: text, as: UTF8.self).split(separator: "\n")
            let address = String(UInt(bitPattern: pages.start), radix: 16)
            let first = try #require(lines.firstIndex { $0.hasPrefix("\(address)-") })
            #expect(lines[first].contains(" rw-p "))
            let flags = try #require(lines[first...].first { $0.hasPrefix("VmFlags:") }).split(separator: " ")
            #expect(flags.contains("lo") && flags.contains("dd"), "\(flags)")
        }

        @Test("where nothing may be locked, secrets work in ordinary memory")
        func withoutLockedMemory() async {
            await #expect(processExitsWith: .success) {
                var none = rlimit(rlim_cur: 0, rlim_max: 0)
                #expect(setrlimit(__rlimit_resource_t(__RLIMIT_MEMLOCK.rawValue), &none) == 0)
                // Root may lock whatever the limit says.
                if geteuid() == 0 { #expect(setuid(65534) == 0) }
                #expect(LockedPages(byteCount: 1) == nil)
                let secret = SecretBytes(copying: [1, 2, 3])
                #expect(!SecretBytes.memoryIsLocked)
                let held = secret.withBytes { Array($0) }
                #expect(held == [1, 2, 3])
            }
        }
    #endif
}

/// Numbers that a seed gives again. <https://prng.di.unimi.it/splitmix64.c>
private struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = (state ^ (state >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
