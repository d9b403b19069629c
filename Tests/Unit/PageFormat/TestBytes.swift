import Foundation
import PageFormat
import StoreCrypto
import Testing

/// The folder of the repository; this file is four levels below it.
let repositoryRoot = (0..<4).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }
let keysFolder = repositoryRoot.appending(path: "Keys")

/// The key and the salt of tests that need no particular ones.
enum TestKey {
    static let bytes = (0..<32).map { UInt8($0) }
    static let salt = (0..<16).map { UInt8($0) }

    static func keys(_ settings: CipherSettings, salt: [UInt8] = salt) throws -> PageKeys {
        try PageKeys(dataKey: SecretBytes(copying: bytes), salt: salt, settings: settings)
    }

    /// The form in which SQLCipher takes key and salt at once.
    static var keyspec: String { "x'\(bytes.hex)\(salt.hex)'" }
}

extension Collection<UInt8> {
    var hex: String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}

extension [UInt8] {
    init(hex: String) {
        let digits = Array<UInt8>(hex.utf8)
        self = stride(from: 0, to: digits.count - 1, by: 2).map { index in
            UInt8(String(decoding: digits[index...index + 1], as: UTF8.self), radix: 16)!
        }
    }

    init(contentsOf file: URL) throws { self = Array(try Data(contentsOf: file)) }

    func write(to file: URL) throws { try Data(self).write(to: file) }

    /// A copy with some bits of one byte flipped.
    func flipping(_ offset: Int, by mask: UInt8 = 0xff) -> [UInt8] {
        var copy = self
        copy[offset] ^= mask
        return copy
    }

    /// Reads like a file does, for the closures of PageFormat.
    func read(_ offset: Int, _ buffer: UnsafeMutableRawBufferPointer) -> Int {
        let available = Swift.max(0, Swift.min(buffer.count, count - offset))
        if available > 0 { buffer.copyBytes(from: self[offset..<offset + available]) }
        return available
    }
}

/// Arrays in and out of a codec, as the tests handle them.
extension PageCodec {
    mutating func verifies(_ page: [UInt8], _ number: UInt32) -> Bool {
        page.withUnsafeBytes { verify($0, number: number) }
    }

    mutating func decrypted(_ page: [UInt8], _ number: UInt32) throws -> [UInt8] {
        var plain = [UInt8](repeating: 0xcc, count: page.count)
        try plain.withUnsafeMutableBytes { plain in
            try page.withUnsafeBytes { try decrypt($0, number: number, into: plain) }
        }
        return plain
    }

    mutating func encrypted(_ plain: [UInt8], _ number: UInt32, vector: [UInt8]? = nil) throws -> [UInt8] {
        var page = [UInt8](repeating: 0xcc, count: plain.count)
        try page.withUnsafeMutableBytes { page in
            try plain.withUnsafeBytes { try encrypt($0, number: number, initializationVector: vector, into: page) }
        }
        return page
    }
}

/// A random generator that gives the same values for the same seed and purpose.
struct SeededGenerator: RandomNumberGenerator {
    /// The seed of the environment's `TEST_SEED`, or a new one; printed once so that a failure can be repeated.
    static let runSeed: UInt64 = {
        let given = ProcessInfo.processInfo.environment["TEST_SEED"].flatMap { UInt64($0) }
        let seed = given ?? UInt64.random(in: 1...UInt64.max)
        print("random tests of PageFormat: TEST_SEED=\(seed)")
        return seed
    }()

    private var state: UInt64

    init(_ purpose: String) {
        state = purpose.utf8.reduce(SeededGenerator.runSeed) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    }

    // SplitMix64: https://prng.di.unimi.it/splitmix64.c
    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var value = state
        value = (value ^ (value >> 30)) &* 0xbf58_476d_1ce4_e5b9
        value = (value ^ (value >> 27)) &* 0x94d0_49bb_1331_11eb
        return value ^ (value >> 31)
    }

    mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<(count + 7) / 8).flatMap { _ in withUnsafeBytes(of: next()) { Array($0) } }.dropLast((8 - count % 8) % 8)
    }
}

/// A folder that is removed with its content.
final class TemporaryFolder {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appending(path: "PageFormat-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    func file(_ name: String) -> URL { url.appending(path: name) }
}
