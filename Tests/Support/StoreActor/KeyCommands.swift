import CTestKit
import CipherStore
import Foundation
import TestKit

extension Actor {
    /// Keys: `derivations` so far, `key-work` so far (derivations, readings and verifications of a pair of sidecars),
    /// `open-key-file PATH FILE`, `change-slot NUMBER PASSPHRASE`, `remove-slot NUMBER`, `readers COUNT` at the same time,
    /// `memory-holds MASK MASKED...` (bytes XORed with MASK, in hexadecimal), `open-without-dumps PATH KEY`, `dumpable`.
    static let keyCommands: [String: Command] = [
        "derivations": { _, _ in
            #if DEBUG
                return "\(KeyWork.derivations)"
            #else
                throw ActorError.onlyInDebugBuilds
            #endif
        },
        "key-work": { _, _ in
            #if DEBUG
                return KeyWork.all.map(String.init).joined(separator: " ")
            #else
                throw ActorError.onlyInDebugBuilds
            #endif
        },
        "open-key-file": { actor, words in
            let opened = try SharedStore.open(at: words[0], unlockedBy: .keyFile(path: words[1]))
            actor.store = opened
            return opened.storeID.description
        },
        "change-slot": { actor, words in
            guard let store = actor.store, let number = UInt64(words[0]) else { throw ActorError.badArguments(words) }
            let source = KeySource.passphrase(words[1])
            return "\(try store.keys.change(number, to: source, derivation: TestKeys.cheap).number)"
        },
        "remove-slot": { actor, words in
            guard let store = actor.store, let number = UInt64(words[0]) else { throw ActorError.badArguments(words) }
            try store.keys.remove(number)
            return ""
        },
        "readers": { actor, words in
            guard let count = Int(words[0]) else { throw ActorError.badArguments(words) }
            return "\(try readAtOnce(actor.writer(), count))"
        },
        "memory-holds": { _, words in
            guard let mask = UInt8(words[0], radix: 16) else { throw ActorError.badArguments(words) }
            return try ProcessMemory.counts(of: words.dropFirst().map(TestKeys.bytes), mask: mask)
                .map(String.init).joined(separator: " ")
        },
        "dumpable": { _, _ in "\(test_dumpable())" },
        "open-without-dumps": { actor, words in
            var config = Configuration()
            config.disablesCoreDumps = true
            return try actor.open(words[0], words[1], config)
        },
    ]

    /// How many readers were inside of a read at the same time.
    private static func readAtOnce(_ writer: any DatabaseWriter, _ count: Int) throws -> Int {
        let inside = DispatchSemaphore(value: 0)
        let go = DispatchSemaphore(value: 0)
        let group = DispatchGroup()
        for _ in 0..<count {
            group.enter()
            Thread.detachNewThread { [group] in
                try? writer.read { db in
                    _ = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM sqlite_schema")
                    inside.signal()
                    go.wait()
                }
                group.leave()
            }
        }
        var arrived = 0
        while arrived < count, inside.wait(timeout: .now() + 20) == .success { arrived += 1 }
        for _ in 0..<count { go.signal() }
        group.wait()
        return arrived
    }
}

/// The memory of this process as the kernel shows it.
enum ProcessMemory {
    private static let chunkBytes = 1 << 20

    /// The regions of memory, to the last one. The kernel gives a few at a time, which Foundation takes for the end.
    private static func maps() throws -> String {
        let file = open("/proc/self/maps", O_RDONLY)
        guard file >= 0 else { throw ActorError.unknown("/proc/self/maps") }
        defer { close(file) }
        var text: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(file, &chunk, chunk.count)
            guard count > 0 else { return String(decoding: text, as: UTF8.self) }
            text += chunk.prefix(count)
        }
    }

    /// How often each of these, given masked, stands in readable memory.
    static func counts(of masked: [[UInt8]], mask: UInt8) throws -> [Int] {
        let maps = try maps()
        let memory = open("/proc/self/mem", O_RDONLY)
        guard memory >= 0 else { throw ActorError.unknown("/proc/self/mem") }
        defer { close(memory) }
        let longest = masked.map(\.count).max() ?? 0
        let buffer = UnsafeMutableRawPointer.allocate(byteCount: chunkBytes + longest, alignment: 16)
        defer { buffer.deallocate() }
        var counts = masked.map { _ in 0 }
        for line in maps.split(separator: "\n") where !line.contains("[vvar") && !line.contains("[vsyscall") {
            let words = line.split(separator: " ")
            let bounds = words[0].split(separator: "-").compactMap { UInt(String($0), radix: 16) }
            guard bounds.count == 2, words[1].hasPrefix("r") else { continue }
            // Sanitizers keep terabytes for marks of their own.
            if bounds[1] - bounds[0] >= 1 << 40 { continue }
            // The content of the buffer was found elsewhere already.
            let own = UInt(bitPattern: buffer)
            if (bounds[0]..<bounds[1]).contains(own) && bounds[1] - bounds[0] <= UInt(2 * chunkBytes) { continue }
            var start = bounds[0]
            while start < bounds[1] {
                let count = pread(memory, buffer, min(chunkBytes + longest, Int(bounds[1] - start)), off_t(start))
                guard count > 0 else { break }
                for (index, needle) in masked.enumerated() {
                    // A hit that begins in the overlap belongs to the next chunk.
                    let length = min(count, chunkBytes + needle.count - 1)
                    counts[index] += test_count_masked(
                        buffer.assumingMemoryBound(to: UInt8.self), length, needle, needle.count, mask)
                }
                start += UInt(chunkBytes)
            }
        }
        return counts
    }
}
