// swift-tools-version: 6.1
import PackageDescription

/// The layers of the package, lowest first; imports go down only (Docs/Architecture.md).
let package = Package(
    name: "CipherStore",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "CipherStore", targets: ["CipherStore"]),
        .library(name: "KeyRotation", targets: ["KeyRotation"]),
        .library(name: "StoreTools", targets: ["StoreTools"]),
        .library(name: "StoreBackups", targets: ["StoreBackups"]),
        .library(name: "RecoveryShares", targets: ["RecoveryShares"]),
        // Plugins and PKCS#11 tokens as key sources.
        .library(name: "KeyDevices", targets: ["KeyDevices"]),
        .library(name: "EncryptionConformance", targets: ["EncryptionConformance"]),
        .library(name: "ChangesetSync", targets: ["ChangesetSync"]),
        // Empty without the traits PostgreSQL and S3.
        .library(name: "PostgreSQLRemote", targets: ["PostgreSQLRemote"]),
        .library(name: "S3Storage", targets: ["S3Storage"]),
        .executable(name: "cipherctl", targets: ["cipherctl"]),
        // Preloaded by tests into programs that are not linked with it (Docs/Testing.md).
        .library(name: "FaultShimPreload", type: .dynamic, targets: ["FaultShim"]),
    ],
    traits: [
        .trait(name: "PostgreSQL", description: "A PostgreSQL server as a remote (PostgreSQLRemote), by libpq"),
        .trait(name: "TPM2", description: "Keyslots of a TPM 2.0 (TPM2Keys), by tpm2-tss"),
        .trait(name: "S3", description: "Backup repositories at object storage (S3Storage), by libcurl"),
    ],
    targets: [
        .system("CSQLCipher", package: "sqlcipher", apt: "libsqlcipher-dev", brew: "sqlcipher"),
        .system("COpenSSL", package: "libcrypto", apt: "libssl-dev", brew: "openssl@3"),
        // Only cipherctl links it.
        .system("CEditLine", package: "libedit", apt: "libedit-dev", brew: "libedit"),
        // Only with the traits PostgreSQL and S3.
        .system("CPostgreSQL", package: "libpq", apt: "libpq-dev", brew: "libpq"),
        .system("CCurl", package: "libcurl", apt: "libcurl4-openssl-dev", brew: "curl"),
        .target(name: "CPlatform"),
        .target(name: "StorePlatform", dependencies: ["CPlatform"]),
        .target(name: "StoreSharing", dependencies: ["StorePlatform"]),
        .target(name: "ServicePlatform", dependencies: ["StorePlatform"]),
        .target(name: "ObjectStorage", dependencies: ["StoreCrypto"]),
        .target(name: "StoreCrypto", dependencies: ["COpenSSL", "StorePlatform"]),
        .target(name: "PageFormat", dependencies: ["StoreCrypto", "StoreSharing"]),
        .target(name: "KeyCustody", dependencies: ["StoreCrypto", "StoreSharing"]),
        .target(name: "CPKCS11", linkerSettings: [.linkedLibrary("dl", .when(platforms: [.linux]))]),
        .target(name: "KeyDevices", dependencies: ["CPKCS11", "KeyCustody"]),
        .target(name: "CipherDatabase", dependencies: ["CSQLCipher", "KeyCustody", "PageFormat"]),
        .target(name: "RotationCore", dependencies: ["CipherDatabase"]),
        .target(name: "CipherSchema", dependencies: ["CipherDatabase"]),
        .target(name: "CipherRecords", dependencies: ["CipherSchema"]),
        .target(name: "CipherObservation", dependencies: ["CipherRecords"]),
        .target(name: "CipherStore", dependencies: ["CipherObservation", "RotationCore"]),
        .target(name: "KeyRotation", dependencies: ["CipherStore"]),
        .target(name: "StoreTools", dependencies: ["CipherStore"]),
        .target(name: "StoreBackups", dependencies: ["CipherStore", "ObjectStorage"]),
        .target(name: "RecoveryShares", dependencies: ["CipherStore"]),
        .target(
            name: "CTPM2", cSettings: [.define("CIPHERSTORE_TPM2", .when(traits: ["TPM2"]))],
            linkerSettings: ["tss2-esys", "tss2-mu", "tss2-tctildr"].map {
                .linkedLibrary($0, .when(traits: ["TPM2"]))
            }),
        .target(name: "TPM2Keys", dependencies: ["CTPM2", "KeyCustody"]),
        .target(name: "CQRCode"),
        .target(name: "QRCodes", dependencies: ["CQRCode", "StoreCrypto"]),
        .target(name: "StoreFleet", dependencies: ["StoreBackups", "StoreTools"]),
        .target(name: "EncryptionConformance", dependencies: ["StoreTools"]),
        .target(name: "ChangesetSync", dependencies: ["CipherStore", "ObjectStorage"]),
        .target(
            name: "PostgreSQLRemote",
            dependencies: ["ChangesetSync", .target(name: "CPostgreSQL", condition: .when(traits: ["PostgreSQL"]))]),
        .target(
            name: "S3Storage",
            dependencies: ["StoreBackups", .target(name: "CCurl", condition: .when(traits: ["S3"]))]),
        .executableTarget(
            name: "cipherctl",
            dependencies: [
                "CEditLine", "EncryptionConformance", "KeyDevices", "KeyRotation", "PostgreSQLRemote", "QRCodes",
                "RecoveryShares", "S3Storage", "ServicePlatform", "StoreFleet", "TPM2Keys",
            ]),
        .executableTarget(
            name: "StoreBenchmark",
            dependencies: ["CBaseline", "EncryptionConformance", "KeyRotation", "PostgreSQLRemote"]),
        .target(name: "CBaseline", dependencies: ["COpenSSL", "CSQLCipher"]),
        .executableTarget(name: "StoreDemo", dependencies: ["CipherStore"]),
        // Tests (Docs/Testing.md). A target names the highest layers that it imports; the lower ones come with them.
        .support("TestKit", ["CipherStore", "CTestKit"]),
        .support("FaultShim"),
        .executableTarget(
            name: "StoreActor",
            dependencies: [
                "ChangesetSync", "FaultShim", "KeyRotation", "PostgreSQLRemote", "StoreBackups", "TestKit",
            ],
            path: "Tests/Support/StoreActor"),
        .support("CTestKit"),
        // Servers of object storage.
        .support("ObjectServers"),
        // Stores that sync, by seeded schedules.
        .support("SyncSimulation", ["CipherObservation", "ChangesetSync", "TestKit"]),
        .support("SeededRandom"),
        .executableTarget(
            name: "SyncSimulator", dependencies: ["SeededRandom", "SyncSimulation"],
            path: "Tests/Support/SyncSimulator"),
        .target(name: "FuzzTargets", dependencies: ["ChangesetSync", "CipherStore"], path: "Tests/Fuzz/FuzzTargets"),
        .testTarget(name: "FuzzTests", dependencies: ["FuzzTargets"], path: "Tests/Fuzz/FuzzTests"),
        // Runs all tests, on threads that they may block.
        .support("TestHarness", ["CallWatch"]),
        .support("CallWatch"),
        .unit("StorePlatform"),
        .unit("StoreSharing", ["TestKit"]),
        .unit("ServicePlatform", ["TestKit"]),
        .unit("StoreCrypto"),
        .unit("PageFormat", ["CSQLCipher"]),
        .unit("KeyCustody"),
        .unit("KeyDevices", ["TestKit"]),
        .unit("CipherDatabase", ["CipherSchema", "TestHarness", "TestKit"]),
        .unit("CipherRecords", ["CipherObservation"]),
        .unit("CipherObservation"),
        .unit("CipherStore", ["TestHarness", "TestKit", "StoreActor"]),
        .unit("RotationCore", ["TestKit"]),
        .unit("KeyRotation", ["TestKit", "StoreActor"]),
        .unit("StoreTools", ["KeyRotation", "TestKit"]),
        .unit("StoreBackups", ["TestKit"]),
        .unit("RecoveryShares", ["TestKit"]),
        .unit("QRCodes", ["TestKit"]),
        .unit("TPM2Keys"),
        .unit("StoreFleet"),
        .unit("EncryptionConformance", ["KeyRotation", "TestKit"]),
        .unit("ChangesetSync", ["SyncSimulation", "TestKit"]),
        .unit(
            "PostgreSQLRemote",
            ["TestKit", .target(name: "CPostgreSQL", condition: .when(traits: ["PostgreSQL"]))]),
        .unit("S3Storage", ["ObjectServers", "StoreBackups", "TestKit"]),
        .kind("MultiProcess", ["TestKit", "StoreActor"]),
        .kind("Conformance", ["KeyRotation", "RecoveryShares", "StoreTools", "TestKit", "StoreActor"]),
        .kind("Crash", ["StoreBackups", "TestKit", "StoreActor"]),
        .kind("CommandLine", ["ObjectServers", "StoreBackups", "StoreTools", "TestKit", "StoreActor", "cipherctl"]),
        .kind("Property", ["TestKit"]),
        .kind("Tidy", ["StoreCrypto", "TestHarness"]),
    ],
    swiftLanguageModes: [.v6]
)

// libFuzzer has the main function of this program, so nothing else can link it: `make fuzz` sets the variable.
if Context.environment["CIPHERSTORE_FUZZ"] != nil {
    package.targets.append(
        .executableTarget(name: "StoreFuzzer", dependencies: ["FuzzTargets"], path: "Tests/Fuzz/StoreFuzzer"))
}

// Only these tests and what they need, with commas between them: building takes longer than running.
if let names = Context.environment["CIPHERSTORE_TEST_TARGETS"] {
    let dependencies = Dictionary(uniqueKeysWithValues: package.targets.map { ($0.name, $0.dependencies) })
    var needed: Set<String> = []
    var pending = names.split(separator: ",").map { Target.Dependency.byName(name: String($0)) }
    while let next = pending.popLast() {
        switch next {
        case .targetItem(let name, _), .byNameItem(let name, _):
            if needed.insert(name).inserted { pending += dependencies[name] ?? [] }
        default: break
        }
    }
    package.targets.removeAll { !needed.contains($0.name) }
    package.products.removeAll { !needed.contains($0.name == "FaultShimPreload" ? "FaultShim" : $0.name) }
}

// The README of each target under Sources tells what it is for.
for target in package.targets where target.path == nil && target.type != .system {
    target.exclude.append("README.md")
}

// `make OPTIMIZED=1` optimizes the library and its programs, not the tests. Debug builds keep their assertions.
if Context.environment["CIPHERSTORE_OPTIMIZED"] != nil {
    for target in package.targets where target.type == .regular || target.type == .executable {
        let flags = SwiftSetting.unsafeFlags(["-O", "-assert-config", "Debug"], .when(configuration: .debug))
        target.swiftSettings = (target.swiftSettings ?? []) + [flags]
    }
}

extension Target {
    /// A library of the system.
    static func system(_ name: String, package: String, apt: String, brew: String) -> Target {
        .systemLibrary(name: name, pkgConfig: package, providers: [.apt([apt]), .brew([brew])])
    }

    /// A target that tests share.
    static func support(_ name: String, _ dependencies: [Dependency] = []) -> Target {
        .target(name: name, dependencies: dependencies, path: "Tests/Support/" + name)
    }

    /// The tests of one target.
    static func unit(_ name: String, _ others: [Dependency] = []) -> Target {
        .testTarget(name: name + "Tests", dependencies: [.byName(name: name)] + others, path: "Tests/Unit/" + name)
    }

    /// The tests of one kind, of several targets.
    static func kind(_ name: String, _ dependencies: [Dependency]) -> Target {
        .testTarget(name: name + "Tests", dependencies: dependencies, path: "Tests/" + name, exclude: ["README.md"])
    }
}
