//! Sets the flag of the R version that the code is compiled for, as extendr-ffi has found it.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(r_before_4_5)");
    let part = |name: &str| std::env::var(format!("DEP_R_R_VERSION_{name}")).ok()?.parse::<u32>().ok();
    if let (Some(major), Some(minor)) = (part("MAJOR"), part("MINOR")) {
        if (major, minor) < (4, 5) {
            println!("cargo::rustc-cfg=r_before_4_5");
        }
    }
}
