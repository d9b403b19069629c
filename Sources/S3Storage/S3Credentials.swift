#if S3
    import Foundation
    import KeyCustody
    import StoreCrypto
    import StorePlatform
    import Synchronization

    /// Credentials of an account at an S3-compatible server.
    package struct S3Credentials: Sendable, CustomStringConvertible {
        let accessKeyID: String
        let secretAccessKey: SecretBytes
        let sessionToken: SecretBytes?
        /// When they expire; nil for never, or if that is not known.
        let expiration: Date?

        init(
            accessKeyID: String, secretAccessKey: SecretBytes, sessionToken: SecretBytes? = nil, expiration: Date? = nil
        ) {
            self.accessKeyID = accessKeyID
            self.secretAccessKey = secretAccessKey
            self.sessionToken = sessionToken
            self.expiration = expiration
        }

        package var description: String { "S3Credentials(\(accessKeyID))" }
    }

    /// The origin of credentials. None is ever taken from the arguments of a process.
    public struct S3CredentialSource: Sendable {
        private enum Kind: Sendable {
            case standard
            case environment
            case file(String, profile: String)
            case command([String], environment: [String])
            case known(S3Credentials)
        }

        private let kind: Kind

        /// Credentials that the program has.
        init(_ credentials: S3Credentials) { kind = .known(credentials) }

        private init(kind: Kind) { self.kind = kind }

        /// The environment if `AWS_ACCESS_KEY_ID` is set, or else the file that `AWS_SHARED_CREDENTIALS_FILE` names, or
        /// `~/.aws/credentials`, with the profile that `AWS_PROFILE` names.
        public static let standard = S3CredentialSource(kind: .standard)
        /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`.
        public static let environment = S3CredentialSource(kind: .environment)

        /// A file in the format of `~/.aws/credentials`. One that its group or others may read or write is refused.
        public static func file(path: String, profile: String = "default") -> S3CredentialSource {
            S3CredentialSource(kind: .file(Files.absolute(path), profile: profile))
        }

        /// A program that prints credentials as a `credential_process` of AWS does: JSON with `Version` 1. It is called
        /// again before they expire.
        ///
        /// - Parameters:
        ///   - arguments: The program, found by `PATH`, and its arguments. No shell is involved.
        ///   - environment: The names of environment variables that it gets, besides `KeySource.commandEnvironment`.
        /// - SeeAlso: <https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html>
        public static func command(_ arguments: [String], environment: [String] = []) -> S3CredentialSource {
            S3CredentialSource(kind: .command(arguments, environment: environment))
        }

        /// - Throws: ``S3Error`` `noCredentials`; `StoreError` `invalidKey` for a file that others may read; `SystemError`.
        func read() throws -> S3Credentials {
            switch kind {
            case .known(let credentials): return credentials
            case .environment: return try Self.ofEnvironment()
            case .file(let path, let profile): return try Self.ofFile(path, profile)
            case .command(let arguments, let environment): return try Self.ofCommand(arguments, environment)
            case .standard:
                if Self.variable("AWS_ACCESS_KEY_ID") != nil { return try Self.ofEnvironment() }
                let home = Self.variable("HOME").map { $0 + "/.aws/credentials" }
                guard let path = Self.variable("AWS_SHARED_CREDENTIALS_FILE") ?? home,
                    try Files.kind(path) != nil
                else {
                    throw S3Error(
                        .noCredentials, "", "AWS_ACCESS_KEY_ID is not set, and there is no file with credentials")
                }
                return try Self.ofFile(path, Self.variable("AWS_PROFILE") ?? "default")
            }
        }

        static func variable(_ name: String) -> String? {
            guard let value = ProcessInspector.environmentValue(name), !value.isEmpty else { return nil }
            return String(decoding: value, as: UTF8.self)
        }

        private static func ofEnvironment() throws -> S3Credentials {
            func secret(_ name: String) -> SecretBytes? {
                ProcessInspector.withEnvironmentValue(name) { $0.isEmpty ? nil : SecretBytes(copying: $0) } ?? nil
            }
            guard let id = variable("AWS_ACCESS_KEY_ID"), let key = secret("AWS_SECRET_ACCESS_KEY") else {
                throw S3Error(.noCredentials, "", "AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY is not set")
            }
            return S3Credentials(
                accessKeyID: id, secretAccessKey: key, sessionToken: secret("AWS_SESSION_TOKEN"))
        }

        private static func ofFile(_ path: String, _ profile: String) throws -> S3Credentials {
            let content = try KeyFile.contents(of: path, checkingPermissions: true, isForStore: false)
            let found = content.withBytes { CredentialsFile.values(of: profile, in: $0) }
            guard let id = found.accessKeyID, let key = found.secretAccessKey else {
                throw S3Error(.noCredentials, "", "the file \(path) has no key for the profile \(profile)")
            }
            return S3Credentials(accessKeyID: id, secretAccessKey: key, sessionToken: found.sessionToken)
        }

        private static func ofCommand(_ arguments: [String], _ environment: [String]) throws -> S3Credentials {
            let output: WipedBuffer
            do {
                output = try Subprocess.output(
                    of: arguments, environment: KeySource.commandEnvironment + environment,
                    limitBytes: S3Limits.credentialsBytes, timeout: S3Limits.commandWait)
            } catch {
                throw S3Error(.noCredentials, "", "the command \(arguments.first ?? "") failed: \(error)")
            }
            let decoder = JSONDecoder()
            decoder.dateDecodingStrategy = .iso8601
            guard let found = try? output.withBytes({ try decoder.decode(ProcessOutput.self, from: Data($0)) }),
                found.Version == 1
            else {
                throw S3Error(
                    .noCredentials, "",
                    "the command \(arguments.first ?? "") printed no credentials in JSON of version 1")
            }
            return S3Credentials(
                accessKeyID: found.AccessKeyId, secretAccessKey: SecretBytes(copying: found.SecretAccessKey.utf8),
                sessionToken: found.SessionToken.map { SecretBytes(copying: $0.utf8) }, expiration: found.Expiration)
        }

        /// The output of a command, with AWS's names.
        private struct ProcessOutput: Decodable {
            let Version: Int
            let AccessKeyId: String
            let SecretAccessKey: String
            let SessionToken: String?
            let Expiration: Date?
        }
    }

    /// Reads one profile of a file in the format of `~/.aws/credentials`. Secrets are copied into locked memory alone.
    enum CredentialsFile {
        struct Values {
            var accessKeyID: String?
            var secretAccessKey: SecretBytes?
            var sessionToken: SecretBytes?
        }

        static func values(of profile: String, in content: UnsafeRawBufferPointer) -> Values {
            var found = Values()
            var isInProfile = false
            for line in content.split(whereSeparator: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }) {
                let line = trimmed(line)
                if line.first == UInt8(ascii: "[") {
                    isInProfile = line.dropFirst().prefix { $0 != UInt8(ascii: "]") }.elementsEqual(profile.utf8)
                    continue
                }
                guard isInProfile, let equals = line.firstIndex(of: UInt8(ascii: "=")) else { continue }
                let (name, value) = (trimmed(line[..<equals]), trimmed(line[(equals + 1)...]))
                guard !value.isEmpty else { continue }
                switch String(decoding: name, as: UTF8.self) {
                case "aws_access_key_id": found.accessKeyID = String(decoding: value, as: UTF8.self)
                case "aws_secret_access_key": found.secretAccessKey = SecretBytes(copying: value)
                case "aws_session_token": found.sessionToken = SecretBytes(copying: value)
                default: break
                }
            }
            return found
        }

        private static func trimmed(_ line: Slice<UnsafeRawBufferPointer>) -> Slice<UnsafeRawBufferPointer> {
            var line = line.drop { $0 == 0x20 || $0 == 0x09 }
            while let last = line.last, last == 0x20 || last == 0x09 { line = line.dropLast() }
            return line
        }
    }

    /// Credentials that are read when they are needed first, and again before they expire.
    final class CredentialCache: Sendable {
        private let source: S3CredentialSource
        private let kept = Mutex<S3Credentials?>(nil)

        init(_ source: S3CredentialSource) { self.source = source }

        func credentials() throws -> S3Credentials {
            let known = kept.withLock(\.self)
            let margin = S3Limits.expiryMargin / .seconds(1)
            if let known, known.expiration.map({ $0.timeIntervalSinceNow > margin }) ?? true { return known }
            let read = try source.read()
            kept.withLock { $0 = read }
            return read
        }

        /// Reads them again at the next call: the server has refused them as expired.
        func forget() { kept.withLock { $0 = nil } }
    }
#endif
