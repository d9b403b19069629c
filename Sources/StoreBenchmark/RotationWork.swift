import CBaseline
import CipherStore
import Foundation
import KeyRotation
import PageFormat
import StoreCrypto

/// Giving pages another key: by the library's own code, by libcrypto alone, and by SQLCipher.
enum RotationWork {
    private static let pageBytes = 4096
    private static let pages = 16_384

    enum Rival {
        case rekey
        case export
    }

    /// Pages in memory, beside what libcrypto needs for them at least. The library also checks, numbers and fingerprints
    /// each page.
    static func reencrypt(_ work: Work, _ comparison: Comparison, workers: Int) throws -> Measurement {
        let memory = PageMemory(byteCount: pages * pageBytes)
        try memory.fill(under: keys(1), pageBytes)
        let reencryption = try PageReencryption(from: keys(1), to: keys(2))
        var flow = PageReencryption.Flow()
        flow.workers = workers
        let scratch = PageMemory(byteCount: pages * pageBytes)
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: 1,
            library: {
                _ = try reencryption.copy(
                    .all(UInt32(pages)), acceptsZeroPages: false, flow: flow,
                    read: { places, buffer in
                        buffer.copyMemory(from: memory.bytes(places.lowerBound * pageBytes, buffer.count))
                    },
                    write: { places, buffer in
                        scratch.mutableBytes(places.lowerBound * pageBytes, buffer.count).copyMemory(from: buffer)
                    })
            },
            baseline: {
                let code = baseline_reencrypt(scratch.start, Int64(pages), Int32(pageBytes), Int32(workers))
                try BenchmarkError.require(code == 0, "libcrypto: \(code)")
            })
    }

    /// A whole rotation of an idle store, with its verification and every synchronization of the disk, beside a way of
    /// SQLCipher's that does neither.
    ///
    /// - Parameter copyOnly: Whether only the copying of all pages counts.
    static func rotate(
        _ work: Work, _ comparison: Comparison, _ fixture: Fixture, beside rival: Rival, copyOnly: Bool = false
    ) throws -> Measurement {
        let name = UUID().uuidString
        let (path, plain) = (fixture.path(of: "rotation-\(name).db"), fixture.path(of: "rekey-\(name).db"))
        let target = fixture.path(of: "export-\(name).db")
        let store = try SharedStore.open(at: path, unlockedBy: Fixture.keySource)
        defer { try? store.close() }
        try store.write { db in
            try db.execute(sql: "CREATE TABLE t (a BLOB)")
            for _ in 0..<64 { try db.execute(sql: "INSERT INTO t VALUES (randomblob(1000000))") }
        }
        try store.checkpoint(.passive)
        try fixture.pool(at: plain).write { db in
            try db.execute(sql: "CREATE TABLE t (a BLOB)")
            for _ in 0..<64 { try db.execute(sql: "INSERT INTO t VALUES (randomblob(1000000))") }
        }
        var keyspecs = [fixture.keyspec, "x'" + String(repeating: "3b", count: 32) + fixture.keyspec.suffix(33)]
        var options = KeyRotation.Options()
        options.checksIntegrity = false
        var copySeconds = 0.0
        return try comparison.measure(
            work.name, goal: work.goal,
            prepare: { try? FileManager.default.removeItem(atPath: target) }, part: copyOnly ? { copySeconds } : nil,
            library: {
                let report = try KeyRotation(store, options: options).run()
                copySeconds = Double(report.bytes) / Double(report.copyBytesPerSecond)
            },
            baseline: {
                switch rival {
                case .rekey:
                    let code = baseline_rekey(plain, keyspecs[0], keyspecs[1])
                    try BenchmarkError.require(code == 0, "rekey: \(code)")
                    keyspecs.swapAt(0, 1)
                case .export:
                    let code = baseline_export(plain, keyspecs[0], target, keyspecs[1])
                    try BenchmarkError.require(code == 0, "sqlcipher_export: \(code)")
                }
            })
    }

    private static func keys(_ byte: UInt8) throws -> PageKeys {
        try PageKeys(
            dataKey: SecretBytes(copying: [UInt8](repeating: byte, count: 32)),
            salt: [UInt8](repeating: byte, count: 16), settings: .plaintextHeader)
    }
}

/// Memory for pages that several threads read and write, each its own.
// Safe because: no two threads touch the same page.
private final class PageMemory: @unchecked Sendable {
    private let memory: UnsafeMutableRawBufferPointer

    init(byteCount: Int) {
        memory = .allocate(byteCount: byteCount, alignment: 4096)
        // Touched once, so that no first use is measured.
        memory.initializeMemory(as: UInt8.self, repeating: 0x5a)
    }

    deinit { memory.deallocate() }

    var start: UnsafeMutableRawPointer? { memory.baseAddress }

    func bytes(_ offset: Int, _ count: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: memory[offset..<offset + count])
    }

    func mutableBytes(_ offset: Int, _ count: Int) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(rebasing: memory[offset..<offset + count])
    }

    /// Encrypts what is there, page by page.
    func fill(under keys: borrowing PageKeys, _ pageBytes: Int) throws {
        var codec = try PageCodec(keys: keys)
        for index in 0..<(memory.count / pageBytes) {
            let page = mutableBytes(index * pageBytes, pageBytes)
            try codec.encrypt(UnsafeRawBufferPointer(page), number: UInt32(index + 1), into: page)
        }
    }
}
