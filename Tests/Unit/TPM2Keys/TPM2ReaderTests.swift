import Foundation
import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody
@testable import TPM2Keys

/// `Keys/generators/open_slot.py`, written from the documents alone, opens the keyslot of a TPM by tpm2-tools.
@Suite(
    "A keyslot of a TPM and the reader of another implementation",
    .enabled(
        if: SoftwareTPM.isUsable && SoftwareTPM.hasTools && PolicySigner.isPossible && BusRecorder.isPossible,
        "needs swtpm, tpm2-tools, openssl, python3 and the trait TPM2"))
struct TPM2ReaderTests {
    private let tpm: SoftwareTPM
    private let store: TPMStore

    private static let python = "/usr/bin/python3"
    private static let hasModule = (try? SoftwareTPM.run(python, ["-c", "import cryptography"])) == 0

    init() throws { (tpm, store) = (try SoftwareTPM(), try TPMStore()) }

    /// The data key that the reader finds; nil if it opens nothing.
    private func dataKey(_ options: [String]) throws -> String? {
        let process = Process()
        process.executableURL = URL(filePath: Self.python)
        let script = TPM2Vectors.root.appending(path: "Keys/generators/open_slot.py").path
        process.arguments = [script, store.path, "--tpm2", "--show-key"] + options
        process.environment = ProcessInfo.processInfo.environment.merging(
            ["TPM2TOOLS_TCTI": tpm.address, "TSS2_LOG": "all+none", "PIN": "4711"]) { $1 }
        let output = Pipe()
        (process.standardOutput, process.standardError) = (output, FileHandle.nullDevice)
        try process.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { return nil }
        return try (JSONSerialization.jsonObject(with: data) as? [String: String])?["key"]
    }

    @Test(
        "it unseals each kind of secret, and finds the data key",
        .enabled(if: hasModule, "python3 with the module cryptography is not here"),
        arguments: [(false, false, false), (true, true, false), (false, false, true), (true, true, true)])
    func reads(hasPCR: Bool, hasPIN: Bool, isSigned: Bool) throws {
        let signer = try PolicySigner()
        try tpm.extend(7)
        try signer.sign([11], of: tpm)
        let boot = SignedBoot(publicKey: isSigned ? signer.publicKey : nil, signatures: signer.file)
        let device = TPM2Device(
            pcrs: hasPCR ? [7] : [], boot: boot, asksPIN: hasPIN, pin: .custom("PIN") { try Passphrase("4711") },
            address: tpm.address)
        let administration = try TPMStore.unlock(store.path)
        _ = try administration.add(NewSlot(KeySource.token(device).read()))
        let sidecar = try administration.sidecar()
        let key = try #require(try administration.keys.dataKey(of: sidecar))
        let expected = key.withBytes { Hex.text(Array($0)) }
        let signatures = ["--tpm2-signature", signer.signatures]
        #expect(try dataKey(signatures) == expected)
        guard hasPCR || isSigned else { return }
        try tpm.extend(hasPCR ? 7 : 11)
        #expect(try dataKey(signatures) == nil)
    }
}
