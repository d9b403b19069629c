import Foundation
import StoreCrypto
import Synchronization
import Testing

@Suite struct CryptoLibraryTests {
    private static let derivations = Atomic<Int>(0)

    private static func derive() throws {
        let key = SecretBytes(copying: [UInt8](repeating: 1, count: 32))
        _ = try KeyDerivation.hkdf(key: key, salt: [], label: "test", keyBytes: 32)
        derivations.add(1, ordering: .relaxed)
    }

    @Test("a process that ends while one of its threads derives keys ends as it wishes")
    func ending() async {
        await #expect(processExitsWith: .exitCode(7)) {
            // Runs behind what libcrypto would do at the end, because that is registered later.
            atexit {
                let before = CryptoLibraryTests.derivations.load(ordering: .relaxed)
                while CryptoLibraryTests.derivations.load(ordering: .relaxed) < before + 1000 { sched_yield() }
            }
            try Self.derive()
            Thread.detachNewThread { while (try? Self.derive()) != nil {} }
            exit(7)
        }
    }
}
