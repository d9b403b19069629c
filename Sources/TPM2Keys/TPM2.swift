import CTPM2
import StoreCrypto
import StorePlatform

/// An open connection to a TPM 2.0, which seals secrets of 32 bytes and unseals them.
///
/// A secret is sealed under the storage hierarchy. On the way it is encrypted in a session whose key only the TPM can
/// know, so that a device on the bus reads nothing. All calls block for the time of the TPM, up to some seconds.
package struct TPM2: ~Copyable {
    private let context: OpaquePointer
    private let address: String

    /// The TPM of this machine: by the resource manager of the kernel, unless the environment names another address.
    package static var usualAddress: String {
        ["CIPHERSTORE_TPM2_TCTI", "TPM2TOOLS_TCTI"].lazy.compactMap { ProcessInspector.environmentValue($0) }
            .first { !$0.isEmpty }.map { String(decoding: $0, as: UTF8.self) } ?? "device:/dev/tpmrm0"
    }

    /// Opens a TPM.
    ///
    /// - Parameter address: A configuration of tpm2-tss, such as `device:/dev/tpmrm0` or `swtpm:host=127.0.0.1,port=2321`.
    /// - Throws: ``TPM2Error`` `absent`, `notBuilt`.
    /// - SeeAlso: <https://tpm2-tss.readthedocs.io/en/latest/group___t_c_t_i.html>
    package init(at address: String = usualAddress) throws(TPM2Error) {
        var (context, failure) = (OpaquePointer?.none, ctpm2_failure())
        let outcome = ctpm2_open(address, &context, &failure)
        guard outcome == Int32(ctpm2_done.rawValue), let context else { throw Self.error(outcome, failure, address) }
        (self.context, self.address) = (context, address)
    }

    deinit { ctpm2_close(context) }

    // MARK: Sealing

    /// Seals a secret.
    ///
    /// - Parameters:
    ///   - secret: 32 bytes.
    ///   - pcrs: The PCRs that must have their present values when it is unsealed.
    ///   - signed: PCRs whose values must be signed when it is unsealed, by a key.
    ///   - pin: A PIN that must be given; the TPM limits how often it can be wrong.
    /// - Throws: ``TPM2Error``; ``CryptoError``.
    package borrowing func seal(
        _ secret: SecretBytes, pcrs: [Int] = [], signed: SignedPolicy? = nil, pin: SecretBytes? = nil
    ) throws -> SealedSecret {
        precondition(secret.count == SealedSecret.digestBytes, "a TPM seals secrets of 32 bytes here")
        let pcrs = Set(pcrs).filter { (0..<SealedSecret.pcrCount).contains($0) }.sorted()
        let salt = try SystemRandom.bytes(SealedSecret.saltBytes)
        var sealed = SealedSecret(
            pcrs: pcrs, signed: signed, needsPIN: pin != nil, salt: salt, values: try values(of: pcrs))
        sealed.machine = (try? machine()) ?? []
        let digest = try SignedPolicy.sha256(sealed.values.flatMap(\.self))
        let auth =
            try pin.map { try Self.authorization($0, salt) } ?? SecretBytes(count: SealedSecret.digestBytes) { _ in }
        var (object, failure) = (Self.object(sealed), ctpm2_failure())
        let outcome = secret.withBytes { secret in
            auth.withBytes { auth in
                ctpm2_seal(context, &object, secret.octets, digest, auth.octets, &failure)
            }
        }
        try check(outcome, failure)
        sealed.parent = Self.bytes(object.parent)
        sealed.publicPart = Self.bytes(object.public_part)
        sealed.privatePart = Self.bytes(object.private_part)
        return sealed
    }

    /// Gives a secret back.
    ///
    /// - Parameters:
    ///   - approval: The signature of the present values of the signed PCRs, if there are any.
    ///   - pin: Not used if none is needed.
    /// - Throws: ``TPM2Error``; ``CryptoError``.
    package borrowing func unseal(
        _ sealed: SealedSecret, _ approval: PolicyApproval? = nil, pin: SecretBytes? = nil
    ) throws -> SecretBytes {
        if sealed.needsPIN, pin == nil { throw TPM2Error.wrongPIN }
        if sealed.signed != nil, approval == nil { throw TPM2Error.policyRefused }
        let auth =
            try sealed.needsPIN ? pin.map { try Self.authorization($0, sealed.salt) } : nil
        var (object, failure) = (Self.object(sealed), ctpm2_failure())
        var signature = try Self.signature(approval)
        var outcome = Int32(0)
        let given = auth ?? SecretBytes(count: SealedSecret.digestBytes) { _ in }
        let secret = SecretBytes(count: SealedSecret.digestBytes) { output in
            outcome = given.withBytes { auth in
                ctpm2_unseal(
                    context, &object, &signature, auth.octets, output.bindMemory(to: UInt8.self).baseAddress, &failure)
            }
        }
        if let approval, outcome == Int32(ctpm2_bad_signature.rawValue) {
            throw TPM2Error.refusedSignature(path: approval.path)
        }
        if outcome != Int32(ctpm2_done.rawValue) { throw explained(Self.error(outcome, failure, address), sealed) }
        return secret
    }

    /// Proves that this TPM has sealed a secret, from the name of its primary key.
    ///
    /// - Throws: ``TPM2Error`` `otherTPM`, `cleared`, `otherOrCleared`, `absent`.
    package borrowing func requireOwn(_ sealed: SealedSecret) throws(TPM2Error) {
        var (object, failure) = (Self.object(sealed), ctpm2_failure())
        let outcome = ctpm2_prove(context, &object, &failure)
        if outcome != Int32(ctpm2_done.rawValue) { throw explained(Self.error(outcome, failure, address), sealed) }
    }

    /// The signature of the present values of the PCRs that must be signed; nil if none must be.
    ///
    /// - Throws: ``TPM2Error``; ``CryptoError``.
    borrowing func approval(of sealed: SealedSecret, in file: SignatureFile) throws -> PolicyApproval? {
        guard let policy = sealed.signed else { return nil }
        let signatures = try file.read()
        return try signatures.approval(of: policy, for: values(of: policy.pcrs))
    }

    /// The same error with what the TPM can say about its cause.
    private borrowing func explained(_ error: TPM2Error, _ sealed: SealedSecret) -> TPM2Error {
        switch error {
        case .otherOrCleared:
            guard !sealed.machine.isEmpty, let machine = try? machine() else { return error }
            return machine == sealed.machine ? .cleared : .otherTPM
        case .policyRefused:
            guard let values = try? values(of: sealed.pcrs) else { return error }
            let changed = zip(sealed.pcrs, zip(values, sealed.values)).filter { $1.0 != $1.1 }.map(\.0)
            return changed.isEmpty ? error : .changedPCRs(changed)
        default: return error
        }
    }

    // MARK: Steps

    /// The authorization value of a PIN. Its last byte is not 0: a TPM drops zeros at the end of such values.
    static func authorization(_ pin: SecretBytes, _ salt: [UInt8]) throws(CryptoError) -> SecretBytes {
        let key = try KeyDerivation.hkdf(
            key: pin, salt: salt, label: "cipherstore tpm2 pin v1", keyBytes: SealedSecret.digestBytes)
        return SecretBytes(count: key.count) { output in
            key.withBytes { output.copyMemory(from: $0) }
            output[output.count - 1] |= 0x80
        }
    }

    /// The present values of PCRs, in the order of their numbers.
    borrowing func values(of pcrs: [Int]) throws(TPM2Error) -> [[UInt8]] {
        guard !pcrs.isEmpty else { return [] }
        var (values, failure) = (ctpm2_values(), ctpm2_failure())
        let mask = pcrs.reduce(UInt32(0)) { $0 | 1 << UInt32($1) }
        try check(ctpm2_read_pcrs(context, mask, &values, &failure), failure)
        let bytes = withUnsafeBytes(of: values) { Array($0) }
        return pcrs.map { Array(bytes[$0 * SealedSecret.digestBytes..<($0 + 1) * SealedSecret.digestBytes]) }
    }

    private borrowing func machine() throws(TPM2Error) -> [UInt8] {
        var (name, failure) = (ctpm2_name(), ctpm2_failure())
        try check(ctpm2_machine(context, &name, &failure), failure)
        return Self.bytes(name)
    }

    private borrowing func check(_ outcome: Int32, _ failure: ctpm2_failure) throws(TPM2Error) {
        if outcome != Int32(ctpm2_done.rawValue) { throw Self.error(outcome, failure, address) }
    }

    private static func error(_ outcome: Int32, _ failure: ctpm2_failure, _ address: String) -> TPM2Error {
        let call = failure.call.map { String(cString: $0) } ?? ""
        switch ctpm2_outcome(UInt32(outcome)) {
        case ctpm2_not_built: return .notBuilt
        case ctpm2_absent:
            return .absent(address: address, detail: "\(call), 0x\(String(failure.code, radix: 16))")
        case ctpm2_other_primary: return .otherOrCleared
        case ctpm2_policy_failed: return .policyRefused
        case ctpm2_wrong_auth: return .wrongPIN
        case ctpm2_locked_out: return .lockedOut
        case ctpm2_damaged: return .damaged
        case ctpm2_unusable_signer: return .unusablePublicKey
        case ctpm2_no_bank: return .noBank
        case ctpm2_busy: return .busy(code: failure.code, call: call)
        default: return .failed(code: failure.code, call: call)
        }
    }

    // MARK: Bytes of C

    private static func object(_ sealed: SealedSecret) -> ctpm2_object {
        var object = ctpm2_object()
        (object.pcrs, object.has_auth) = (sealed.mask, sealed.needsPIN ? 1 : 0)
        if let signed = sealed.signed {
            object.signed_pcrs = signed.mask
            put(signed.key.modulus, &object.modulus.bytes, &object.modulus.count)
        }
        put(sealed.parent, &object.parent.bytes, &object.parent.count)
        put(sealed.publicPart, &object.public_part.bytes, &object.public_part.count)
        put(sealed.privatePart, &object.private_part.bytes, &object.private_part.count)
        return object
    }

    private static func signature(_ approval: PolicyApproval?) throws(CryptoError) -> ctpm2_approval {
        var result = ctpm2_approval()
        guard let approval else { return result }
        let digest = try SignedPolicy.sha256(approval.policy)
        withUnsafeMutableBytes(of: &result.policy) { $0.copyBytes(from: approval.policy.prefix($0.count)) }
        withUnsafeMutableBytes(of: &result.digest) { $0.copyBytes(from: digest.prefix($0.count)) }
        put(approval.signature, &result.signature.bytes, &result.signature.count)
        return result
    }

    private static func bytes(_ name: ctpm2_name) -> [UInt8] {
        withUnsafeBytes(of: name.bytes) { Array($0.prefix(Int(name.count))) }
    }

    private static func bytes(_ part: ctpm2_part) -> [UInt8] {
        withUnsafeBytes(of: part.bytes) { Array($0.prefix(Int(part.count))) }
    }

    private static func put<Place>(_ bytes: [UInt8], _ place: inout Place, _ count: inout UInt16) {
        withUnsafeMutableBytes(of: &place) { $0.copyBytes(from: bytes.prefix($0.count)) }
        count = UInt16(min(bytes.count, MemoryLayout<Place>.size))
    }
}

extension UnsafeRawBufferPointer {
    fileprivate var octets: UnsafePointer<UInt8>? { bindMemory(to: UInt8.self).baseAddress }
}
