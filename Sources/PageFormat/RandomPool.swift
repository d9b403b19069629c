import StoreCrypto

/// Random bytes drawn in advance in one call, because a call for each page costs more than the bytes.
///
/// For values that become public with the page, never for keys.
struct RandomPool: ~Copyable, Sendable {
    private static let poolBytes = 4096

    private var bytes: [UInt8] = []
    private var used = 0

    /// Fills `target`; no byte is used twice.
    mutating func take(into target: UnsafeMutableRawBufferPointer) throws(CryptoError) {
        if target.isEmpty { return }
        if bytes.count - used < target.count {
            bytes = try SystemRandom.bytes(max(RandomPool.poolBytes, target.count))
            used = 0
        }
        let end = used + target.count
        bytes.withUnsafeBytes { target.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[used..<end])) }
        used = end
    }
}
