import Foundation

/// Stands between a program and a TPM in software, and records every byte of both: a device on the bus of a real one.
struct BusRecorder {
    static let isPossible = BusProxy.isPossible
    private let proxy: BusProxy

    var address: String { proxy.address }

    init(of tpm: SoftwareTPM) throws {
        proxy = try BusProxy(
            of: tpm,
            """
            recorded = bytearray()
            def note(data, is_command):
                recorded.extend(data)
            def result():
                return recorded
            """)
    }

    /// All bytes so far, in both directions.
    func finish() throws -> Data { try proxy.finish() }
}
