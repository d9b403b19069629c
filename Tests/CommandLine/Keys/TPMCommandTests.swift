import Foundation
import TestKit
import Testing

/// Keyslots of a TPM with signed PCRs, with swtpm.
@Suite("cipherctl and a TPM")
struct TPMCommandTests {
    private let place: Workplace
    private var store: String { place.path("s.db") }

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private func ctl(_ tpm: CommandTPM, _ arguments: String..., key: [String]) throws -> CommandRun.Outcome {
        try place.run(arguments + key, environment: tpm.environment)
    }

    @Test(
        "a store opens after an update that is signed; without a signature the error names PCR, file and other slots",
        .enabled(if: CommandTPM.isPossible, "needs swtpm, tpm2-tools, openssl and the trait TPM2"))
    func signed() throws {
        let tpm = try CommandTPM()
        let file = place.path("signatures.json")
        let byTPM = ["--key-tpm2", "--tpm2-signature", file]
        try place.write(try tpm.signatures(of: 11), to: "signatures.json")
        let added = try ctl(
            tpm, "key", "add", store, "--new-key-tpm2", "--tpm2-public-key", tpm.publicKey, "--tpm2-signature", file,
            key: ["--raw-key-file", place.key])
        #expect(added.status == 0, "\(added.errors)")
        let listed = try ctl(tpm, "key", "list", store, key: [])
        #expect(listed.output.contains("signed PCR 11"), "\(listed.output)")
        let count = "SELECT count(*) FROM t"
        #expect(try ctl(tpm, "sql", store, count, key: byTPM).output.contains("3000"))
        try tpm.extend(11)
        let refused = try ctl(tpm, "sql", store, count, key: byTPM)
        #expect(refused.status == 77 && refused.errors.contains("PCR 11 has a value"), "\(refused.errors)")
        #expect(refused.errors.contains(file) && refused.errors.contains("1 (key-file)"), "\(refused.errors)")
        let missing = try ctl(tpm, "sql", store, count, key: ["--key-tpm2", "--tpm2-signature", file + "2"])
        #expect(missing.status != 0 && missing.errors.contains(file + "2"), "\(missing.errors)")
        try place.remove("signatures.json")
        try place.write(try tpm.signatures(of: 11), to: "signatures.json")
        #expect(try ctl(tpm, "sql", store, count, key: byTPM).output.contains("3000"))
        let rotated = try ctl(
            tpm, "rotate", store, "--compromised", "--no-backup", "--also-key-tpm2", "--tpm2-signature", file, "--yes",
            key: ["--raw-key-file", place.key])
        #expect(rotated.status == 0, "\(rotated.errors)")
        #expect(try ctl(tpm, "sql", store, count, key: byTPM).output.contains("3000"))
    }

    @Test("options of signed PCRs that do not fit together are refused before a TPM is asked")
    func mistakes() throws {
        func refusal(_ options: String...) throws -> CommandRun.Outcome {
            try place.run(
                ["key", "add", store, "--new-key-tpm2", "--raw-key-file", place.key] + options,
                environment: ["CIPHERSTORE_TPM2_TCTI": "device:/dev/none"])
        }
        let alone = try refusal("--tpm2-public-key-pcrs", "11")
        #expect(alone.status == 64 && alone.errors.contains("--tpm2-public-key FILE"), "\(alone.errors)")
        for pcrs in ["24", "7,x", "-1"] {
            let wrong = try refusal("--tpm2-public-key", place.key, "--tpm2-public-key-pcrs", pcrs)
            #expect(wrong.status == 64 && wrong.errors.contains("0 to 23"), "\(pcrs): \(wrong.errors)")
        }
        let noKey = try refusal("--tpm2-public-key", place.key)
        #expect(noKey.status != 0 && noKey.errors.contains("openssl rsa"), "\(noKey.errors)")
    }
}
