import StoreCrypto
import Testing

@Suite("Secrets in memory")
struct SecretBytesTests {
    struct Refusal: Error {}

    @Test("a secret holds what it was made from", arguments: [0, 1, 32, 4097])
    func holdsItsBytes(count: Int) {
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        let secret = SecretBytes(copying: bytes)
        let held = secret.withBytes { Array($0) }
        #expect(held == bytes)
        let heldCount = secret.count
        #expect(heldCount == count)
        let fromRaw = bytes.withUnsafeBytes { (raw: UnsafeRawBufferPointer) in
            SecretBytes(copying: raw).withBytes { Array($0) }
        }
        #expect(fromRaw == bytes)
        let fromLazy = SecretBytes(copying: bytes.lazy.map { $0 }).withBytes { Array($0) }
        #expect(fromLazy == bytes)
    }

    @Test("memory handed out for filling is zero at first")
    func startsAtZero() {
        // The block of the first secret is free again, and would show its bytes if it had not been wiped.
        do { _ = SecretBytes(copying: [UInt8](repeating: 0xee, count: 64)) }
        let secret = SecretBytes(count: 64) { _ in }
        let isZero = secret.withBytes { $0.allSatisfy { $0 == 0 } }
        #expect(isZero)
    }

    @Test("an initializer that throws passes its error on")
    func passesErrorsOn() {
        #expect(throws: Refusal.self) { _ = try SecretBytes(count: 16) { _ in throw Refusal() } }
    }

    @Test("a secret lives while its bytes are lent, though nobody refers to it any more")
    func lives() {
        #expect(SecretBytes(copying: [1, 2, 3]).withBytes { Array($0) } == [1, 2, 3])
    }

    @Test("a secret prints nothing of itself")
    func printsNothing() {
        let secret = SecretBytes(copying: Array("hidden".utf8))
        var dumped = ""
        dump(secret, to: &dumped)
        #expect("\(secret)" == "SecretBytes" && !dumped.contains("6") && !dumped.contains("0x"))
    }

    @Test("secrets are equal by their bytes and length")
    func comparesBytes() {
        let secret = SecretBytes(copying: [1, 2, 3])
        func isEqual(_ bytes: [UInt8]) -> Bool { secret.isEqual(to: SecretBytes(copying: bytes)) }
        #expect(isEqual([1, 2, 3]))
        for other in [[1, 2, 4], [0, 2, 3], [1, 2], [1, 2, 3, 0], []] as [[UInt8]] {
            #expect(!isEqual(other))
        }
        let bothEmpty = SecretBytes(copying: []).isEqual(to: SecretBytes(copying: []))
        #expect(bothEmpty)
    }

    @Test("random secrets have the length asked for and differ")
    func drawsRandomSecrets() throws {
        let first = try SecretBytes.random(count: 32)
        let second = try SecretBytes.random(count: 32)
        let count = first.count
        #expect(count == 32)
        let areEqual = first.isEqual(to: second)
        #expect(!areEqual)
        let none = try SecretBytes.random(count: 0).count
        #expect(none == 0)
    }

    @Test("more secrets than the locked heap has room for still work")
    func outgrowsTheLockedHeap() {
        let large = SecretBytes(copying: [UInt8](repeating: 0xa5, count: 3 << 20))
        let isWhole = large.withBytes { $0.allSatisfy { $0 == 0xa5 } }
        #expect(isWhole)
    }

    @Test("random public bytes have the length asked for and differ")
    func drawsRandomBytes() throws {
        #expect(try SystemRandom.bytes(16).count == 16)
        #expect(try SystemRandom.bytes(16) != SystemRandom.bytes(16))
        #expect(try SystemRandom.bytes(0).isEmpty)
    }
}
