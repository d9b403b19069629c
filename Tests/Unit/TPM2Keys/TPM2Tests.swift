import Foundation
import StoreCrypto
import Testing

@testable import TPM2Keys

/// Secrets in a TPM of swtpm. tpm2-tools change its state.
@Suite(
    "Secrets in a TPM", .enabled(if: SoftwareTPM.isUsable, "needs swtpm and the trait TPM2"))
struct TPM2Tests {
    private let secret: SecretBytes
    private let pin = SecretBytes(copying: "1234".utf8)

    init() throws { secret = try .random(count: 32) }

    private static func error(_ body: () throws -> Void) -> TPM2Error? {
        do {
            try body()
            return nil
        } catch {
            return error as? TPM2Error
        }
    }

    private func error(_ sealed: SealedSecret, _ pin: SecretBytes? = nil, at tpm: SoftwareTPM) -> TPM2Error? {
        Self.error { _ = try TPM2(at: tpm.address).unseal(sealed, pin: pin) }
    }

    private func opens(_ sealed: SealedSecret, _ pin: SecretBytes? = nil, at tpm: SoftwareTPM) throws -> Bool {
        try TPM2(at: tpm.address).unseal(sealed, pin: pin).isEqual(to: secret)
    }

    @Test("a secret is unsealed from its encoded form, also after the machine was off; no part of it is in there")
    func sealing() throws {
        let tpm = try SoftwareTPM()
        let sealed = try TPM2(at: tpm.address).seal(secret)
        let blob = sealed.encoded
        let read = try #require(SealedSecret(blob))
        #expect(read == sealed && blob.count < 1_000 && "\(read)" == "this machine")
        #expect(try opens(read, at: tpm))
        try tpm.restart()
        #expect(try opens(read, at: tpm))
        let start = secret.withBytes { Array($0.prefix(8)) }
        #expect(Data(blob).range(of: Data(start)) == nil)
    }

    @Test(
        "what another machine has sealed, or this one before its TPM was cleared, is told apart",
        .enabled(if: SoftwareTPM.hasTools)
    )
    func otherMachine() throws {
        let (tpm, other) = (try SoftwareTPM(), try SoftwareTPM())
        let sealed = try TPM2(at: tpm.address).seal(secret)
        #expect(error(sealed, at: other) == .otherTPM)
        try tpm.run("tpm2_clear", "-c", "p")
        #expect(error(sealed, at: tpm) == .cleared)
    }

    @Test("a PCR that has changed is named", .enabled(if: SoftwareTPM.hasTools))
    func changedPCR() throws {
        let tpm = try SoftwareTPM()
        try tpm.run("tpm2_pcrextend", "11:sha256=" + String(repeating: "ab", count: 32))
        let sealed = try TPM2(at: tpm.address).seal(secret, pcrs: [11, 7, 11])
        #expect(sealed.pcrs == [7, 11] && sealed.description == "PCRs 7+11")
        #expect(try opens(sealed, at: tpm))
        try tpm.run("tpm2_pcrextend", "7:sha256=" + String(repeating: "cd", count: 32))
        #expect(error(sealed, at: tpm) == .changedPCRs([7]))
        try tpm.restart()
        #expect(error(sealed, at: tpm) == .changedPCRs([11]))
        try tpm.run("tpm2_pcrextend", "11:sha256=" + String(repeating: "ab", count: 32))
        #expect(try opens(sealed, at: tpm))
    }

    @Test("a wrong PIN is refused, and after some the TPM refuses every one", .enabled(if: SoftwareTPM.hasTools))
    func wrongPIN() throws {
        let tpm = try SoftwareTPM()
        let sealed = try TPM2(at: tpm.address).seal(secret, pcrs: [7], pin: pin)
        #expect(sealed.description == "PCR 7, PIN")
        #expect(try opens(sealed, pin, at: tpm))
        let wrong = SecretBytes(copying: "12345".utf8)
        #expect(error(sealed, nil, at: tpm) == .wrongPIN)
        var last: TPM2Error?
        for _ in 0..<10 {
            last = error(sealed, wrong, at: tpm)
            if last != .wrongPIN { break }
        }
        #expect(last == .lockedOut && error(sealed, pin, at: tpm) == .lockedOut)
        // A secret without a PIN is not locked out.
        let plain = try TPM2(at: tpm.address).seal(secret)
        #expect(try opens(plain, at: tpm))
        try tpm.run("tpm2_dictionarylockout", "--clear-lockout")
        #expect(try opens(sealed, pin, at: tpm))
    }

    @Test("a blob with another byte anywhere opens nothing, and is no end of the program")
    func damaged() throws {
        let tpm = try SoftwareTPM()
        let sealed = try TPM2(at: tpm.address).seal(secret, pcrs: [7])
        let blob = sealed.encoded
        #expect(SealedSecret(blob + [0]) == nil)
        for count in stride(from: 0, to: blob.count, by: 7) { #expect(SealedSecret(Array(blob.prefix(count))) == nil) }
        // The values of PCRs, the salt of no PIN and the name of the machine are for messages, and change nothing.
        let start = 24 + 2 + sealed.parent.count + 2 + sealed.machine.count
        let end = blob.count - 32
        for offset in Array(0..<8) + Array(24..<26 + sealed.parent.count) + Array(stride(from: start, to: end, by: 5)) {
            var changed = blob
            changed[offset] ^= 1
            guard let read = SealedSecret(changed) else { continue }
            #expect(error(read, at: tpm) != nil, "byte \(offset)")
        }
        var zeros = sealed
        zeros.privatePart = [UInt8](repeating: 0, count: 512)
        #expect(error(zeros, at: tpm) == .damaged)
    }

    @Test("what goes over the bus has neither the secret nor what the PIN gives", .enabled(if: BusRecorder.isPossible))
    func bus() throws {
        let tpm = try SoftwareTPM()
        let recorder = try BusRecorder(of: tpm)
        let sealed = try TPM2(at: recorder.address).seal(secret, pin: pin)
        #expect(try TPM2(at: recorder.address).unseal(sealed, pin: pin).isEqual(to: secret))
        let bytes = try recorder.finish()
        let auth = try TPM2.authorization(pin, sealed.salt)
        for value in [secret, auth] {
            for start in 0..<25 {
                let part = value.withBytes { Data($0[start..<start + 8]) }
                #expect(bytes.range(of: part) == nil)
            }
        }
        // It has recorded: the public part is in there.
        #expect(bytes.range(of: Data(sealed.publicPart.suffix(32))) != nil)
    }

    @Test("an absent TPM is called so")
    func absent() {
        for address in ["device:/dev/there-is-none", "swtpm:host=127.0.0.1,port=1", "no-such-transport"] {
            guard case .absent(let named, _) = Self.error({ _ = try TPM2(at: address) }) else {
                Issue.record("\(address)")
                continue
            }
            #expect(named == address)
        }
    }

    @Test("twenty openings one after the other leave nothing in the TPM", .enabled(if: SoftwareTPM.hasTools))
    func oneAfterTheOther() throws {
        let tpm = try SoftwareTPM()
        let sealed = try TPM2(at: tpm.address).seal(secret)
        for _ in 0..<20 { #expect(try opens(sealed, at: tpm)) }
        // Nothing is left in the few places that a TPM has for objects and sessions.
        try tpm.run("tpm2_createprimary")
    }
}
