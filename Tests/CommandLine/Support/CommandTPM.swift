import Foundation
import TestKit
import Testing

/// A TPM in software (swtpm) of one test of cipherctl, changed by tpm2-tools, and a key that signs its PCRs.
// Safe because: each TPM is used by the one test that made it.
final class CommandTPM: @unchecked Sendable {
    private static let programs = ["/usr/bin/swtpm", "/usr/bin/tpm2_pcrextend", "/usr/bin/openssl"]
    /// Whether the programs are here, and cipherctl has the trait.
    static let isPossible: Bool = {
        #if TPM2
            programs.allSatisfy { FileManager.default.isExecutableFile(atPath: $0) }
        #else
            false
        #endif
    }()

    private let folder = TemporaryFolder()
    private var process = Process()
    private var port = 0

    var environment: [String: String] {
        ["CIPHERSTORE_TPM2_TCTI": "swtpm:host=127.0.0.1,port=\(port)"]
    }

    var publicKey: String { folder.path("public.pem") }

    init() throws {
        try call("openssl", "genrsa", "-out", folder.path("private.pem"), "2048")
        try call("openssl", "rsa", "-in", folder.path("private.pem"), "-pubout", "-out", publicKey)
        let deadline = ContinuousClock.now + .seconds(20)
        repeat {
            // swtpm ends at once where a port is taken.
            port = Int.random(in: 20_000..<32_000)
            process = Process()
            process.executableURL = URL(filePath: "/usr/bin/swtpm")
            process.arguments = [
                "socket", "--tpm2", "--tpmstate", "dir=\(folder.url.path)", "--server", "type=tcp,port=\(port)",
                "--ctrl",
                "type=tcp,port=\(port + 1)", "--flags", "not-need-init,startup-clear",
            ]
            process.standardError = FileHandle.nullDevice
            try process.run()
            while process.isRunning, ContinuousClock.now < deadline {
                if (try? values([0])) != nil { return }
            }
            stop()
        } while ContinuousClock.now < deadline
        Issue.record("swtpm did not start")
    }

    deinit { stop() }

    private func stop() {
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    private func call(_ program: String, _ arguments: String...) throws {
        let done = try CommandRun(
            URL(filePath: "/usr/bin/\(program)"), arguments,
            environment: ["TPM2TOOLS_TCTI": "swtpm:host=127.0.0.1,port=\(port)", "TSS2_LOG": "all+none"]
        ).finish()
        try #require(done.status == 0, "\(program): \(done.errors)")
    }

    func extend(_ pcr: Int) throws {
        try call("tpm2_pcrextend", "\(pcr):sha256=" + String(repeating: "ab", count: 32))
    }

    private func values(_ pcrs: [Int]) throws -> Data {
        try call("tpm2_pcrread", "sha256:\(pcrs.map(String.init).joined(separator: ","))", "-o", folder.path("values"))
        return try Data(contentsOf: URL(filePath: folder.path("values")))
    }

    /// A file of systemd-measure for the present value of a PCR, by tpm2-tools and openssl.
    func signatures(of pcr: Int) throws -> String {
        _ = try values([pcr])
        try call(
            "tpm2_createpolicy", "--policy-pcr", "-l", "sha256:\(pcr)", "-f", folder.path("values"), "-L",
            folder.path("policy"))
        try call(
            "openssl", "dgst", "-sha256", "-sign", folder.path("private.pem"), "-out", folder.path("signature"),
            folder.path("policy"))
        try call(
            "openssl", "rsa", "-pubin", "-in", publicKey, "-RSAPublicKey_out", "-outform", "DER", "-out",
            folder.path("der"))
        try call("openssl", "dgst", "-sha256", "-binary", "-out", folder.path("fingerprint"), folder.path("der"))
        func hex(_ name: String) throws -> String {
            try Data(contentsOf: URL(filePath: folder.path(name))).map { String(format: "%02x", $0) }.joined()
        }
        let signature = try Data(contentsOf: URL(filePath: folder.path("signature"))).base64EncodedString()
        let entry =
            #""pcrs":[\#(pcr)],"pkfp":"\#(try hex("fingerprint"))","pol":"\#(try hex("policy"))","sig":"\#(signature)""#
        return #"{"sha256":[{\#(entry)}]}"#
    }
}
